"""How weights reach a learner; written where the ratio estimators, which fit classifiers, may import it."""

from covshift._learner import check_takes_weights, fit_weighted, takes_weights

__all__ = ["check_takes_weights", "fit_weighted", "takes_weights"]
