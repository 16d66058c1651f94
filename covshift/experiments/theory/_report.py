"""Tables of the theory simulations, made from their rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from covshift.experiments.rows import Row
from covshift.experiments.tables import Cell, Table
from covshift.experiments.theory import _map, _rates, _theorem1, _violations
from covshift.experiments.theory._world import WORLDS

__all__ = ["cells", "log_ratios", "rate_columns", "slope", "theory_tables"]


def theory_tables(rows: Sequence[Row], about: Mapping[str, Any]) -> list[Table]:
    """One table a simulation that has rows."""
    kinds = {row.problem.split("/")[0] for row in rows}
    makers = {
        "violations": [violation_table],
        "theorem 1": [theorem1_table],
        "rates": [rate_table],
        "remark": [remark_table],
        "map": [lambda r: map_table(r, _map.METRICS[0]), lambda r: map_table(r, _map.METRICS[1])],
    }
    return [make(rows) for kind, group in makers.items() if kind in kinds for make in group]


def cells(rows: Iterable[Row], problem: str) -> dict[tuple[str, str, int], np.ndarray]:
    """(method, metric, n) -> values by seed, of one problem."""
    groups: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for row in rows:
        if row.problem == problem:
            groups.setdefault((row.method, row.metric, int(row.extra["n"])), []).append((row.seed, row.value))
    return {key: np.array([value for _, value in sorted(group)]) for key, group in groups.items()}


def violation_table(rows: Sequence[Row]) -> Table:
    found = cells(rows, _violations.PROBLEM)
    lines: list[Sequence[Cell | str]] = []
    for method in _violations.METHODS:
        draws = found[method, "draws", _violations.N].sum()
        for delta in _violations.DELTAS:
            of = {name: found[method, f"{name}, delta={delta:g}", _violations.N] for name in _violations.PER_DELTA}
            failed, hundredth, smallest, median = (of[name] for name in _violations.PER_DELTA)
            shares = [f"{failed.sum() / draws:.4f}", f"{hundredth.sum() / draws:.3f}"]
            ratios = [f"{smallest.min():.0f}", f"{np.median(median):.0f}"]
            lines.append([f"{method}, delta = {delta:g}", *shares, *ratios])
    header = ["constants", "share of draws that break it", "the same, terms / 100", "smallest ratio", "median ratio"]
    notes = [
        f"{draws:.0f} draws of S, n = {_violations.N} + {_violations.N}, 400 pairs (f, g). "
        "Ratio: what the Lemma adds to J_hat over the exact maximum of J - J_hat."
    ]
    return Table("theory/violations", "The Lemma: violations", header, lines, notes)


def theorem1_table(rows: Sequence[Row]) -> Table:
    lines: list[Sequence[Cell | str]] = []
    total = 0.0
    for case in _theorem1.CASES:
        found = cells(rows, _theorem1.theorem1_problem(case))
        of = {(method, metric): values for (method, metric, _), values in found.items()}
        draws = of[_theorem1.G_KINDS[0], "draws"].sum()
        failed = sum(of[kind, "violations"].sum() for kind in _theorem1.G_KINDS)
        smallest = [of[kind, "smallest J over R^2 / 2"].min() for kind in _theorem1.G_KINDS]
        at = of["r - c lbar", "E lbar^2 there"][np.argmin(of["r - c lbar", "smallest J over R^2 / 2"])]
        total += draws
        lines.append(
            [" over ".join(case), f"{draws:.0f}", f"{failed:.0f}", *(f"{v:.4f}" for v in smallest), f"{at:.4f}"]
        )
    header = ["loss over bounded loss", "draws of f", "violations", *_theorem1.G_KINDS, "E lbar^2 there"]
    notes = [
        f"{total:.0f} f, four g each; the smallest J / (R^2 / 2) seen of each kind (Theorem 1: never below 1). "
        "For g = r - c lbar it is 2 / (1 + E lbar^2 / m^2), so equality needs a loss of m nearly everywhere."
    ]
    return Table("theory/theorem1", "Theorem 1 on random f and g", header, lines, notes)


def slope(by_n: Mapping[int, np.ndarray], resamples: int = 2000) -> tuple[float, float, float]:
    """Least-squares slope of log mean against log n, with a 95 % bootstrap interval over draws."""
    sizes = sorted(by_n)
    x = np.log(sizes)
    x = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    values = np.stack([by_n[n] for n in sizes])
    picks = np.random.default_rng(0).integers(0, values.shape[1], (resamples, values.shape[1]))
    slopes = np.log(values[:, picks].mean(axis=2)).T @ x
    low, high = np.quantile(slopes, [0.025, 0.975])
    return float(np.log(values.mean(axis=1)) @ x), float(low), float(high)


def rate_columns(
    rows: Sequence[Row], name: str
) -> tuple[dict[str, dict[int, np.ndarray]], dict[str, dict[int, float]]]:
    """(metric -> n -> values by seed, constant -> n -> value) of a world."""
    draws: dict[str, dict[int, np.ndarray]] = {}
    for (_, metric, n), values in cells(rows, f"rates/{name}").items():
        draws.setdefault(metric, {})[n] = values
    constants: dict[str, dict[int, float]] = {}
    for (_, metric, n), values in cells(rows, f"constants/{name}").items():
        constants.setdefault(metric, {})[n] = float(values[0])
    return draws, constants


def rate_table(rows: Sequence[Row]) -> Table:
    lines: list[Sequence[Cell | str]] = []
    for name in WORLDS:
        draws, constants = rate_columns(rows, name)
        sizes = sorted(draws["R"])
        J, low, high = slope(draws["J_UB - min J_UB"])
        R_UB_star = constants["R_UB(f*)"][sizes[0]]
        floor = constants["R_UB(f_J)"][sizes[0]] - R_UB_star
        excess = draws["R_UB - R_UB(f*)"]
        R = np.concatenate([draws["R"][n] for n in sizes])
        rate = np.concatenate([np.full_like(draws["R"][n], constants["rate, tight"][n]) for n in sizes])
        start = np.sqrt(2.0) * R_UB_star
        fitted = f"{J:.3f} [{low:.3f}, {high:.3f}]"
        shares = [f"{(R <= start + rate).mean():.3f}", f"{(R <= start).mean():.3f}"]
        shares.append(f"{constants['rate, tight'][sizes[-1]]:.1f}")
        ends = [f"{excess[sizes[0]].mean():.2e}", f"{excess[sizes[-1]].mean():.2e}"]
        lines.append([name, fitted, *shares, *ends, f"{max(floor, 0.0):.2e}"])
    first, last = sizes[0], sizes[-1]
    header = ["world", "slope of J_UB - min J_UB", "R <= sqrt 2 R_UB(f*) + rate", "R <= sqrt 2 R_UB(f*)"]
    header += [f"rate, n = {last}", f"R_UB - R_UB(f*), n = {first}", f"n = {last}", "its floor R_UB(f_J) - R_UB(f*)"]
    notes = [
        "Slope of log mean against log n with a 95 % bootstrap interval. Rate: Theorem 3 (tight), delta = 0.05. "
        "R is at most 1, so the inequality cannot fail where the rate is above 1: the share without it is beside it."
    ]
    return Table("theory/rates", "Against n", header, lines, notes)


def remark_table(rows: Sequence[Row]) -> Table:
    lines: list[Sequence[Cell | str]] = []
    for name in WORLDS:
        found = cells(rows, f"remark/{name}")
        shares = []
        for metric in _rates.REMARK_METRICS:
            joint, two = (found[method, metric, _rates.REMARK_N] for method in ("joint", "two-step"))
            shares += [f"{(joint < two).mean():.3f}", f"{joint.mean():.4f} / {two.mean():.4f}"]
        lines.append([f"{name} ({len(joint)} draws)", *shares])
    header = ["world"]
    for metric in _rates.REMARK_METRICS:
        header += [f"{metric}: joint lower", "mean joint / two-step"]
    notes = ["Two-step: loss-free g, then f. J_hat is what both minimise; J_UB and the risks are exact."]
    return Table("theory/remark", f"The Remark, n = {_rates.REMARK_N}", header, lines, notes)


def log_ratios(rows: Sequence[Row], profile: str, model: str, n: int, metric: str) -> dict[str, np.ndarray]:
    """method -> log(excess error / that of loss-free weights), draw by draw."""
    found = cells(rows, _map.map_problem(profile, model, n))
    base = np.log(found["loss-free", metric, n])
    return {method: np.log(found[method, metric, n]) - base for method in _map.METHODS if method != "loss-free"}


def map_table(rows: Sequence[Row], metric: str) -> Table:
    there = {row.problem for row in rows}
    lines: list[Sequence[Cell | str]] = []
    for model in _map.MODELS:
        for profile in _map.PROFILES:
            for n in _map.MAP_SIZES:
                if _map.map_problem(profile, model, n) not in there:
                    continue
                ratios = log_ratios(rows, profile, model, n, metric)
                lines.append([f"{model}, noise {profile}, n = {n}", *(_ratio(v) for v in ratios.values())])
    header = ["f, noise profile, n", *(method for method in _map.METHODS if method != "loss-free")]
    notes = [
        "Geometric mean over draws of the excess error against loss-free weights (paired t of its logarithm); "
        "bold: below 1 with t < -2. `same mean`: weights rescaled to the loss-free ones' mean. Controls: no weights, "
        "the true ratio, and loss-free weights over the noise variance."
    ]
    how = metric.split(", ")[1]
    return Table(f"theory/map-{how.lower()}", f"Where the coupling acts, reg_f by {how}", header, lines, notes)


def _ratio(logs: np.ndarray) -> Cell:
    spread = logs.std(ddof=1) if len(logs) > 1 else 0.0
    t = logs.mean() / (spread / np.sqrt(len(logs))) if spread > 0 else 0.0
    return Cell(f"{np.exp(logs.mean()):.3f} ({t:+.1f})", bold=bool(t < -2.0))
