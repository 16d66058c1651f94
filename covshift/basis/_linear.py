"""The linear basis: the inputs themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covshift.basis._base import Basis


@dataclass(frozen=True)
class LinearBasis(Basis):
    """phi(x) = x. Centres only tell how many inputs there are; a bandwidth has no meaning and is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> LinearBasis(2).transform(np.array([[3.0, 4.0]]), bandwidth=1.0)
    array([[3., 4.]])
    """

    n_inputs: int
    has_bandwidth: ClassVar[bool] = False

    @classmethod
    def from_centers(cls, centers: np.ndarray) -> LinearBasis:
        return cls(centers.shape[1])

    @property
    def n_features(self) -> int:
        return self.n_inputs

    def prepare(self, X: np.ndarray) -> np.ndarray:
        return X

    def features(self, prepared: np.ndarray, bandwidth: float) -> np.ndarray:
        return prepared
