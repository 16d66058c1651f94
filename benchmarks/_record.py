"""What a benchmark returns, and the few measurements that several share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Record", "best_of", "dgemm_rate"]


@dataclass(frozen=True)
class Record:
    """One line of the table.

    Parameters
    ----------
    work : what was done, with its sizes
    measured : the figure
    unit : "%", "x" (times faster), "MiB", "s", "exponent", ...
    must, aim : bounds; None where the figure is only reported
    at_most : the bounds are upper bounds
    note : what the figure rests on (seconds, rates, gaps)
    """

    work: str
    measured: float
    unit: str
    must: float | None = None
    aim: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def reached(self) -> str:
        """ "aim", "must", "no", or "report" where there is no bound."""
        if self.must is None and self.aim is None:
            return "report"
        for name in ("aim", "must"):
            bound = getattr(self, name)
            if bound is not None and (self.measured <= bound if self.at_most else self.measured >= bound):
                return name
        return "no"


def best_of(function: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Smallest seconds of some calls: what the machine can do when nobody else is on it.

    `clock=time.process_time` counts processor seconds, which others on the machine disturb less; for work on one
    thread they are wall-clock seconds otherwise.
    """
    best = np.inf
    for _ in range(repeats):
        start = clock()
        function()
        best = min(best, clock() - start)
    return best


def dgemm_rate(b: int = 100, columns: int = 4096, repeats: int = 40) -> float:
    """Best flops a second of a product of b x b with b x columns, double precision, in processor seconds."""
    rng = np.random.default_rng(0)
    A, B, out = rng.normal(size=(b, b)), rng.normal(size=(b, columns)), np.empty((b, columns))
    return 2 * b * b * columns / best_of(lambda: np.matmul(A, B, out=out), repeats, time.process_time)
