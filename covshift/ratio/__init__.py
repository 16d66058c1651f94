"""Estimators of the importance p_target / p_source."""

from covshift.ratio._base import RatioEstimator
from covshift.ratio._classifier import ClassifierRatio
from covshift.ratio._kliep import KLIEP
from covshift.ratio._kmm import KMM
from covshift.ratio._ulsif import ULSIF, RuLSIF

# The registry that tests and benchmarks run over: a new estimator is one file and one line here.
RATIOS: dict[str, type[RatioEstimator]] = {
    "ulsif": ULSIF,
    "rulsif": RuLSIF,
    "kliep": KLIEP,
    "kmm": KMM,
    "classifier": ClassifierRatio,
}

__all__ = ["KLIEP", "KMM", "RATIOS", "ULSIF", "ClassifierRatio", "RatioEstimator", "RuLSIF"]
