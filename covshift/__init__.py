"""Learning under covariate shift: predictor and importance weights in one step."""

from covshift._checks import Target
from covshift.exceptions import NoTargetWarning, OverlapWarning
from covshift.onestep._any_learner import OneStep
from covshift.onestep._estimators import OneStepClassifier, OneStepRegressor

__version__ = "0.1.0"
__all__ = [
    "NoTargetWarning",
    "OneStep",
    "OneStepClassifier",
    "OneStepRegressor",
    "OverlapWarning",
    "Target",
    "__version__",
]
