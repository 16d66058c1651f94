"""The public door to model selection under covariate shift."""

from covshift._checks import Target
from covshift.selection import IWGridSearchCV, IWRandomizedSearchCV, iw_cross_validate

__all__ = ["IWGridSearchCV", "IWRandomizedSearchCV", "Target", "iw_cross_validate"]
