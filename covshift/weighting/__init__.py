"""Importance weighting in two steps: a ratio, then any learner; and what may be done to weights in between."""

from covshift.weighting._erm import ImportanceWeighted
from covshift.weighting._transforms import TRANSFORMS, clip, flatten, normalize, relative

__all__ = ["TRANSFORMS", "ImportanceWeighted", "clip", "flatten", "normalize", "relative"]
