"""uLSIF's exact leave-one-out search: share of the machine's matrix product, growth, memory, competitors."""

from __future__ import annotations

import resource

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
    """Searching the grid, and the whole fit around it, against b x b times b x 4096."""
    n = 10_000
    X, T = samples(n)
    basis = GaussianBasis(T[:_B])
    bandwidths = np.geomspace(0.25, 4, _GRID) * median_bandwidth(X, T, T[:_B])
    regs = np.logspace(-3, 1, _GRID)
    rate, seconds, seconds_fit = 0.0, np.inf, np.inf
    for _ in range(8):  # in turns, so that all three see the machine in the same state
        rate = max(rate, dgemm_rate(_B))
        seconds = min(seconds, best_of(lambda: search_least_squares(X, T, None, basis, bandwidths, regs, "pairs"), 2))
        seconds_fit = min(seconds_fit, best_of(lambda: ULSIF(loo="pairs", random_state=0).fit(X, X_target=T), 2))
    work = f"uLSIF exact leave-one-out (pairs), 9 x 9, n = 1e4, d = {_D}, b = {_B}"
    note = "{:.3f} s; best dgemm {:.1f} Gflop/s"
    of_search, of_fit = (100 * counted_flops(n) / t / rate for t in (seconds, seconds_fit))
    return [
        Record(f"{work}: search", of_search, "%", 60, 78, note=note.format(seconds, rate / 1e9)),
        Record(f"{work}: whole fit", of_fit, "%", note=note.format(seconds_fit, rate / 1e9)),
    ]


def growth_and_memory() -> list[Record]:
    """Seconds at 1e4, 1e5 and 1e6 rows of either sample, and the memory that the largest fit adds."""
    X, T = samples(1_000_000)
    seconds = []
    for n, repeats in ((10_000, 5), (100_000, 2), (1_000_000, 1)):
        before = _peak()
        few, few_target = X[:n], T[:n]
        seconds.append(
            best_of(lambda x=few, t=few_target: ULSIF(loo="pairs", random_state=0).fit(x, X_target=t), repeats)
        )
    added = _peak() - before - 1_000_000 * 8 / 2**20  # weights_
    slopes = np.diff(np.log10(seconds))
    timed = ", ".join(f"{t:.2f} s" for t in seconds)
    work = "uLSIF exact leave-one-out (pairs), 9 x 9"
    return [
        Record(
            f"{work}: growth from n = 1e4 over 1e5 to 1e6", slopes.max(), "exponent", 1.05, at_most=True, note=timed
        ),
        Record(f"{work}: memory beyond data and weights_, n = 1e6", added, "MiB", 35, at_most=True),
    ]


def _peak() -> float:
    """Largest resident size so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def competitors() -> list[Record]:
    """The same search by other packages: nine bandwidths, nine ridges, 100 centres, leave-one-out."""
    n = 10_000
    X, T = samples(n)
    median = median_bandwidth(X, T, T[:_B])
    grid = {
        "bandwidths": (np.geomspace(0.25, 4, _GRID) * median).tolist(),
        "regs": np.logspace(-3, 1, _GRID).tolist(),
    }
    model = ULSIF(grid["bandwidths"], grid["regs"], loo="pairs", standardize=False, random_state=0)
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
