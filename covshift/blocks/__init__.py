"""Sums over rows: the one door through which every estimator adds up its rows."""

from covshift.blocks._base import map_blocks, sum_over_blocks

__all__ = ["map_blocks", "sum_over_blocks"]
