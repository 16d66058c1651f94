"""Model selection under covariate shift, through the public contracts of learners and ratio estimators."""

from covshift.selection._iwcv import iw_cross_validate
from covshift.selection._search import IWGridSearchCV, IWRandomizedSearchCV

__all__ = ["IWGridSearchCV", "IWRandomizedSearchCV", "iw_cross_validate"]
