"""Bases: what turns rows into features. A new basis is one file and one line in `BASES`."""

from covshift.basis._bandwidth import median_bandwidth, weighted_median
from covshift.basis._base import Basis
from covshift.basis._centers import draw_centers
from covshift.basis._gaussian import GaussianBasis, squared_distances
from covshift.basis._linear import LinearBasis

BASES: dict[str, type[Basis]] = {"gaussian": GaussianBasis, "linear": LinearBasis}

__all__ = [
    "BASES",
    "Basis",
    "GaussianBasis",
    "LinearBasis",
    "draw_centers",
    "median_bandwidth",
    "squared_distances",
    "weighted_median",
]
