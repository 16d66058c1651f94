"""How far weights can be trusted; written where the ratio estimators, which report the same figures, may import it."""

from covshift.ratio._overlap import effective_sample_size, max_weight_share, share_beyond_support, warn_overlap

__all__ = ["effective_sample_size", "max_weight_share", "share_beyond_support", "warn_overlap"]
