"""The paper's two figures, and pictures of the tables; drawn to PNG files without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covshift.exceptions import MissingExtraError
from covshift.experiments.contract import Draw, Fitted
from covshift.experiments.rows import atomic_write
from covshift.losses import get_loss

__all__ = ["draw_dots", "draw_toy", "draw_tukey", "new_figure", "save_figure"]

RHO = 4.685
COLOURS = ("tab:gray", "tab:green", "tab:purple", "tab:red", "tab:brown", "tab:cyan")


def new_figure(width: float, height: float) -> Any:
    """A figure that no window and no global state knows of."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "figures need matplotlib, which is not installed: pip install 'covshift[plot]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> Path:
    """Write a PNG whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    atomic_write(path, buffer.getvalue())
    return path


def draw_tukey(path: Path) -> Path:
    """Tukey's loss for rho = 4.685, and the smallest multiple of the squared loss that lies above it."""
    figure = new_figure(6, 3.6)
    axes = figure.subplots()
    r = np.linspace(-8, 8, 801)
    loss = get_loss("tukey")
    squared = loss.irls_weight(np.zeros(1), np.zeros(1))[0] * r**2
    axes.plot(r, loss.value(r, 0.0), color="tab:red", label=r"Tukey, $\rho = 4.685$")
    axes.plot(r, squared, color="tab:blue", linestyle="--", label=r"$(3 / \rho^2)\,(\hat y - y)^2$, lies above it")
    axes.axhline(1.0, color="black", linewidth=0.6)
    axes.set(xlabel=r"$\hat y - y$", ylabel="loss", ylim=(0, 1.6), xlim=(-8, 8))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, ncols=2)
    return save_figure(figure, path)


def draw_toy(path: Path, draw: Draw, fits: Mapping[str, Fitted]) -> Path:
    """Rows, sinc and the fitted functions above; the weights of the source rows and the true ratio below."""
    figure = new_figure(8, 7)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    grid = np.linspace(-0.5, 3.0, 400)[:, None]
    upper.scatter(draw.X[:, 0], draw.y, s=9, color="tab:blue", label="source rows")
    upper.scatter(
        draw.X_eval[:150, 0], draw.y_eval[:150], s=9, color="tab:orange", label="target rows (labels unseen)"
    )
    upper.plot(grid[:, 0], np.sinc(grid[:, 0]), color="black", linewidth=2, label=r"$f^*(x) = \mathrm{sinc}(x)$")
    for (name, fit), colour in zip(fits.items(), COLOURS, strict=False):
        upper.plot(grid[:, 0], fit.predict(grid), color=colour, label=name)
        if fit.weights is not None and np.ptp(fit.weights) > 0:
            # Weights matter up to a factor: all are drawn with mean one.
            lower.scatter(draw.X[:, 0], fit.weights / fit.weights.mean(), s=10, color=colour, label=name)
    if draw.true_ratio is not None:
        order = np.argsort(draw.X[:, 0])
        ratio = draw.true_ratio[order] / draw.true_ratio.mean()
        lower.plot(draw.X[order, 0], ratio, color="black", linewidth=1, label="true ratio")
    upper.set(ylabel="y", ylim=(-0.6, 1.4))
    lower.set(xlabel="x", ylabel="weight / mean weight", ylim=(0, None))
    upper.legend(frameon=False, fontsize=8, ncols=2)
    lower.legend(frameon=False, fontsize=8)
    return save_figure(figure, path)


def draw_dots(
    path: Path,
    labels: Sequence[str],
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    xlabel: str,
    *,
    log: bool = False,
    line: float | None = None,
) -> Path:
    """One line a label; one colour a series of (means, standard errors); NaN is left out."""
    figure = new_figure(8.5, 0.26 * len(labels) + 1.4)
    axes = figure.subplots()
    at = np.arange(len(labels))
    for k, (name, (means, errors)) in enumerate(series.items()):
        shift = (k - (len(series) - 1) / 2) * 0.12
        colour = COLOURS[(k + 3) % len(COLOURS)]
        axes.errorbar(means, at + shift, xerr=errors, fmt="o", markersize=4, color=colour, label=name, linewidth=1)
    if line is not None:
        axes.axvline(line, color="black", linewidth=0.7)
    if log:
        axes.set_xscale("log")
    axes.set_yticks(at, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(xlabel)
    axes.grid(axis="x", linewidth=0.3)
    axes.legend(frameon=False, fontsize=8)
    return save_figure(figure, path)
