"""Sums over rows: the one door through which every estimator adds up its rows."""

from covshift.blocks._base import floats_in_cache, sum_over_blocks

__all__ = ["floats_in_cache", "sum_over_blocks"]
