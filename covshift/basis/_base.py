"""The contract of a basis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np


class Basis(ABC):
    """phi: rows of R^d -> R^b, with centres fixed by the data and one width that a search may vary.

    What all widths share is computed once by `prepare` (for the Gaussian basis: squared distances); `features` turns
    it into Phi for one width. Both act on rows one by one, so blocks and whole give the same numbers.
    """

    has_bandwidth: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def from_centers(cls, centers: np.ndarray) -> Basis:
        """The basis on these centres, shape (b, d)."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """b, the number of features of a row."""

    @abstractmethod
    def prepare(self, X: np.ndarray) -> np.ndarray:
        """What all bandwidths share, shape (n, any); rows in, rows out."""

    @abstractmethod
    def features(self, prepared: np.ndarray, bandwidth: float) -> np.ndarray:
        """Phi, shape (n, b), from prepared rows."""

    def transform(self, X: np.ndarray, bandwidth: float) -> np.ndarray:
        """Phi, shape (n, b), from rows."""
        return self.features(self.prepare(X), bandwidth)
