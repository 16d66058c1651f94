"""Learning under covariate shift: predictor and importance weights in one step."""

from covshift._checks import Target
from covshift.exceptions import NoTargetWarning, OverlapWarning
from covshift.onestep._any_learner import OneStep
from covshift.onestep._estimators import OneStepClassifier, OneStepRegressor
from covshift.ratio import KLIEP, KMM, ULSIF, ClassifierRatio, RuLSIF
from covshift.weighting import ImportanceWeighted

__version__ = "0.1.0"
__all__ = [
    "KLIEP",
    "KMM",
    "ULSIF",
    "ClassifierRatio",
    "ImportanceWeighted",
    "NoTargetWarning",
    "OneStep",
    "OneStepClassifier",
    "OneStepRegressor",
    "OverlapWarning",
    "RuLSIF",
    "Target",
    "__version__",
]
