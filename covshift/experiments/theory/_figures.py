"""Figures of the theory simulations, made from their rows alone (needs the `plot` extra)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covshift.experiments.figures import new_figure, save_figure
from covshift.experiments.rows import Row
from covshift.experiments.theory import _map, _rates, _violations
from covshift.experiments.theory._report import cells, log_ratios, rate_columns, slope
from covshift.experiments.theory._world import WORLDS

__all__ = ["theory_figures"]

JOINT, TWO_STEP, GREY = "#c1440e", "#1f6f8b", "0.55"


def theory_figures(rows: Sequence[Row], folder: Path | str) -> list[Path]:
    """`violations.png`, `rates.png`, `remark.png` and `map.png` in the folder; the files."""
    makers = {"violations": _violations_figure, "rates": _rates_figure, "remark": _remark_figure, "map": _map_figure}
    kinds = {row.problem.split("/")[0] for row in rows}
    files = []
    for name, make in makers.items():
        if name in kinds:
            figure = new_figure(9, 4)
            make(figure, rows)
            files.append(save_figure(figure, Path(folder) / f"{name}.png"))
    return files


def _violations_figure(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(9, 3.6)
    left, right = figure.subplots(1, 2)
    found, deltas = cells(rows, _violations.PROBLEM), np.array(_violations.DELTAS)
    for method, colour in zip(_violations.METHODS, (TWO_STEP, JOINT), strict=True):
        draws = found[method, "draws", _violations.N].sum()

        def of(name: str, method: str = method) -> list[np.ndarray]:
            return [found[method, f"{name}, delta={delta:g}", _violations.N] for delta in deltas]

        left.plot(deltas, [v.sum() / draws for v in of("violations")], "o-", color=colour, label=method)
        shares = [v.sum() / draws for v in of("violations of a hundredth")]
        left.plot(deltas, shares, "s--", color=colour, label=f"{method}, terms / 100")
        right.plot(deltas, [v.min() for v in of("smallest bound over deviation")], "o-", color=colour, label=method)
    left.plot(deltas, deltas, color=GREY, lw=1, label="delta")
    left.set(xlabel="delta", ylabel="share of draws that break the Lemma", title=f"{draws:.0f} draws of S")
    left.legend(fontsize=8, loc="center left", bbox_to_anchor=(0.3, 0.5))
    right.set(xlabel="delta", ylabel="smallest ratio", title="added terms over the largest J - J_hat", ylim=(0, None))
    right.legend(fontsize=8)
    for axis in (left, right):
        axis.set_xticks(deltas, [f"{delta:g}" for delta in deltas])


def _rates_figure(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(9, 6.4)
    axes = figure.subplots(2, len(WORLDS), sharex=True)
    for (top, bottom), name in zip(axes.T, WORLDS, strict=True):
        draws, constants = rate_columns(rows, name)
        sizes = np.array(sorted(draws["R"]))
        for axis, metric in ((top, "J_UB - min J_UB"), (bottom, "R_UB - R_UB(f*)")):
            values = np.stack([draws[metric][n] for n in sizes])
            low, high = np.quantile(values, [0.1, 0.9], axis=1)
            axis.fill_between(sizes, np.maximum(low, 1e-9), high, color=JOINT, alpha=0.2, lw=0)
            axis.loglog(sizes, values.mean(axis=1), "o-", color=JOINT, label="joint minimiser: mean, 80 % of draws")
        start = draws["J_UB - min J_UB"][sizes[0]].mean()
        top.loglog(sizes, start * (sizes / sizes[0]) ** -0.5, "--", color=GREY, label="slope -1/2 (Theorem 3)")
        fitted, below, above = slope(draws["J_UB - min J_UB"])
        top.set(title=f"f {name}: slope {fitted:.2f} [{below:.2f}, {above:.2f}]", ylabel="J_UB - min J_UB")
        floor = constants["R_UB(f_J)"][sizes[0]] - constants["R_UB(f*)"][sizes[0]]
        if floor > 1e-6:
            bottom.axhline(floor, color="k", ls=":", label=f"floor R_UB(f_J) - R_UB(f*) = {floor:.3f}")
        bottom.set(xlabel="n (source and target)", ylabel="R_UB - R_UB(f*)")
        top.legend(fontsize=8, loc="lower left")
        bottom.legend(fontsize=8, loc="lower left")


def _remark_figure(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(9, 4)
    for axis, name in zip(figure.subplots(1, len(WORLDS)), WORLDS, strict=True):
        found, n = cells(rows, f"remark/{name}"), _rates.REMARK_N
        J, R = (found["joint", metric, n] - found["two-step", metric, n] for metric in ("J_UB", "R_UB"))
        axis.axhline(0, color=GREY, lw=0.8)
        axis.axvline(0, color=GREY, lw=0.8)
        axis.scatter(J, R, s=12, color=JOINT, alpha=0.6, lw=0)
        axis.set(xlabel="J_UB, joint minus two-step", ylabel="R_UB, joint minus two-step")
        axis.set_title(f"f {name}: J lower in {(J < 0).mean():.0%}, risk lower in {(R < 0).mean():.0%}", fontsize=10)


def _map_figure(figure: Any, rows: Sequence[Row]) -> None:
    """Rows: noise profiles; columns: k, with weights as they are and rescaled, and the controls."""
    there = {row.problem for row in rows}
    sizes = [n for n in _map.MAP_SIZES if _map.map_problem(next(iter(_map.PROFILES)), _map.MODELS[0], n) in there]
    methods = [method for method in _map.METHODS if method != "loss-free"]
    figure.set_size_inches(3.4 * len(sizes) + 1.2, 10.5)
    grid = figure.subplots(len(_map.MODELS) * 2, len(sizes), sharex=True, sharey=True, squeeze=False)
    panels = [(model, metric) for model in _map.MODELS for metric in _map.METRICS]
    for line, (model, metric) in zip(grid, panels, strict=True):
        for axis, n in zip(line, sizes, strict=True):
            logs = [
                [log_ratios(rows, profile, model, n, metric)[m].mean() for m in methods] for profile in _map.PROFILES
            ]
            shades = np.clip(np.array(logs) / np.log(2.0), -1.0, 1.0)
            image = axis.imshow(shades, cmap="RdBu_r", vmin=-1.0, vmax=1.0, aspect="auto")
            for (i, j), shade in np.ndenumerate(shades):
                colour = "white" if abs(shade) > 0.6 else "black"
                text = f"{np.exp(logs[i][j]):.2f}"
                axis.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
            axis.set_title(f"f {model}, reg_f by {metric.split(', ')[1]}, n = {n}", fontsize=9)
            axis.set_xticks(range(len(methods)), methods, rotation=70, ha="right", fontsize=7)
            axis.set_yticks(range(len(_map.PROFILES)), list(_map.PROFILES), fontsize=8)
    figure.colorbar(image, ax=grid, shrink=0.4, label="log2 of (excess error / that of loss-free weights)")
