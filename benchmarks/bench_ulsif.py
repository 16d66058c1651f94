"""uLSIF's exact leave-one-out search: share of the machine's matrix product, growth, memory, competitors."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np

from benchmarks._competitors import run_competitor
from benchmarks._record import Record, best_of, dgemm_rate
from covshift.basis import GaussianBasis, median_bandwidth
from covshift.ratio import ULSIF
from covshift.ratio._search import search_least_squares

_D, _B, _GRID = 10, 100, 9


def samples(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal source in ten inputs; the target's first input is shifted by half a standard deviation."""
    rng = np.random.default_rng(seed)
    X, T = np.empty((n, _D)), np.empty((n, _D))
    rng.standard_normal(out=X)
    rng.standard_normal(out=T)
    T[:, 0] += 0.5
    return X, T


def counted_flops(n: int) -> float:
    """sum over bandwidths of 2n(2bd + b^2) + 4b^2 n, plus 2b^2 n a (bandwidth, reg), for n rows of either sample."""
    rows = 2 * n
    return _GRID * (rows * (2 * _B * _D + _B**2) + 2 * _B**2 * rows) + _GRID**2 * 2 * _B**2 * n


def search() -> list[Record]:
    """Searching the grid, and the whole fit around it, against b x b times b x 4096, all in processor seconds."""
    n = 10_000
    X, T = samples(n)
    basis = GaussianBasis(T[:_B])
    bandwidths = np.geomspace(0.25, 4, _GRID) * median_bandwidth(X, T, T[:_B])
    regs = np.logspace(-3, 1, _GRID)
    rate, seconds, seconds_fit = 0.0, np.inf, np.inf
    for _ in range(8):  # in turns, so that all three see the machine in the same state
        rate = max(rate, dgemm_rate(_B))
        seconds = min(
            seconds,
            best_of(lambda: search_least_squares(X, T, None, basis, bandwidths, regs, "pairs"), 2, time.process_time),
        )
        seconds_fit = min(
            seconds_fit, best_of(lambda: ULSIF(loo="pairs", random_state=0).fit(X, X_target=T), 2, time.process_time)
        )
    work = f"uLSIF exact leave-one-out (pairs), 9 x 9, n = 1e4, d = {_D}, b = {_B}"
    note = "{:.3f} s; best dgemm {:.1f} Gflop/s"
    of_search, of_fit = (100 * counted_flops(n) / t / rate for t in (seconds, seconds_fit))
    return [
        Record(f"{work}: search", of_search, "%", 60, 78, note=note.format(seconds, rate / 1e9)),
        Record(f"{work}: whole fit", of_fit, "%", note=note.format(seconds_fit, rate / 1e9)),
    ]


def growth_and_memory() -> list[Record]:
    """Processor seconds at 1e4, 1e5 and 1e6 rows of either sample, and the memory that the largest fit adds.

    The largest comes first, after a tiny fit that loads what is loaded once: what a process has held before and not
    given back would hide what the fit needs.
    """
    X, T = samples(1_000_000)
    sizes = (10_000, 100_000, 1_000_000)

    def seconds(n: int, repeats: int) -> float:
        return best_of(
            lambda: ULSIF(loo="pairs", random_state=0).fit(X[:n], X_target=T[:n]), repeats, time.process_time
        )

    seconds(300, 1)
    before = _resident()
    largest = seconds(sizes[2], 1)
    added = _peak() - before - sizes[2] * 8 / 2**20  # weights_
    timed = [seconds(sizes[0], 5), seconds(sizes[1], 2), largest]
    slopes = np.diff(np.log10(timed))
    work = "uLSIF exact leave-one-out (pairs), 9 x 9"
    note = ", ".join(f"{t:.2f} s" for t in timed)
    return [
        Record(f"{work}: growth, n = 1e4, 1e5, 1e6", slopes.max(), "exponent", 1.05, at_most=True, note=note),
        Record(f"{work}: memory beyond data and weights_, n = 1e6", added, "MiB", 35, at_most=True),
    ]


def _resident() -> float:
    """Resident size now, MiB (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _peak() -> float:
    """Largest resident size so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def competitors() -> list[Record]:
    """The same search by other packages: nine bandwidths, nine ridges, 100 centres, leave-one-out."""
    n = 10_000
    X, T = samples(n)
    median = median_bandwidth(X, T, T[:_B])
    bandwidths, regs = (np.geomspace(0.25, 4, _GRID) * median).tolist(), np.logspace(-3, 1, _GRID).tolist()
    model = ULSIF(bandwidths, regs, loo="pairs", standardize=False, random_state=0)
    seconds = best_of(lambda: model.fit(X, X_target=T), 5)
    records = []
    for package in ("adapt", "densratio"):
        theirs = run_competitor(f"ulsif-{package}", X, T, bandwidths=bandwidths, regs=regs)
        records.append(
            Record(
                f"uLSIF leave-one-out search, n = 1e4, against {theirs['version']}",
                theirs["seconds"] / seconds,
                "x",
                60,
                100,
                note=f"{theirs['seconds']:.1f} s against {seconds:.3f} s",
            )
        )
    return records
