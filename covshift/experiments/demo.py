"""`covshift demo`: the paper's toy end to end in seconds, with nothing installed but the core and matplotlib."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from covshift.exceptions import OverlapWarning
from covshift.experiments.contract import Draw, Fitted
from covshift.experiments.figures import draw_toy, draw_tukey, new_figure
from covshift.experiments.methods import default, eiwerm, erm, one_step, riwerm
from covshift.experiments.objective import mse
from covshift.experiments.problems import toy
from covshift.experiments.tables import Table

__all__ = ["DEMO_TRIALS", "Demo", "paper_figures", "run_demo"]

DEMO_TRIALS = 10
# The paper prints no grid; these are the ones of `from_paper`, and gamma, alpha = 0, 0.1, ..., 1.
REGS = tuple(float(v) for v in np.logspace(-3, 0, 7))
TENTHS = tuple(k / 10 for k in range(11))

METHODS: dict[str, Callable[[Draw, int], Fitted]] = {
    "ERM": lambda draw, seed: erm.fit(draw, seed, reg_f=REGS),
    "EIWERM": lambda draw, seed: eiwerm.fit(draw, seed, reg_f=REGS, reg_g=REGS, exponents=TENTHS),
    "RIWERM": lambda draw, seed: riwerm.fit(draw, seed, reg_f=REGS, reg_g=REGS, exponents=TENTHS),
    "one-step": lambda draw, seed: one_step.fit(draw, seed, reg_f=REGS, reg_g=REGS),
    "covshift's default": lambda draw, seed: default.fit(draw, seed),
}


@dataclass(frozen=True)
class Demo:
    """What the demo made."""

    table: Table
    files: list[Path]
    seconds: float


def run_demo(folder: Path | str, say: Callable[[str], None] = print, trials: int = DEMO_TRIALS) -> Demo:
    """Both figures into `folder`, and the table of a few trials; `say` gets a line of progress now and then."""
    start = time.perf_counter()
    folder = Path(folder)
    new_figure(1, 1)  # a missing matplotlib is told before anything is computed
    folder.mkdir(parents=True, exist_ok=True)
    files = paper_figures(folder)
    say(f"both figures drawn; {trials} trials of {len(METHODS)} methods follow")
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in range(trials):
        draw = toy.draw(seed)
        for name, fitted in _fits(draw, seed).items():
            errors[name].append(mse(fitted.predict(draw.X_eval), draw.y_eval))
    return Demo(_table(errors, trials), files, time.perf_counter() - start)


def paper_figures(folder: Path) -> list[Path]:
    """Tukey's loss, and the toy's first draw with the fits and weights on it; the files."""
    draw = toy.draw(0)
    return [draw_tukey(folder / "tukey.png"), draw_toy(folder / "toy.png", draw, _fits(draw, 0))]


def _fits(draw: Draw, seed: int) -> dict[str, Fitted]:
    with warnings.catch_warnings():
        # The toy's target lies at the edge of the source, and every fit would say so; the figure shows it.
        warnings.simplefilter("ignore", OverlapWarning)
        return {name: fit(draw, seed) for name, fit in METHODS.items()}


def _table(errors: dict[str, list[float]], trials: int) -> Table:
    lines = []
    for name, values in errors.items():
        error = np.std(values, ddof=1) / np.sqrt(trials) if trials > 1 else np.nan
        lines.append([name, f"{np.mean(values):.4f}", f"{error:.4f}"])
    return Table(
        "demo",
        f"Toy regression: mean squared error on the target, mean over {trials} trials",
        ["method", "MSE", "s.e."],
        lines,
        [
            f"{trials} trials are few: differences of less than about two standard errors mean nothing, and a single",
            "bad draw moves a mean. Noise alone gives 0.0100. ERM, EIWERM, RIWERM, one-step: squared loss, median",
            "heuristic, as in the paper's Table 1; `covshift reproduce toy` runs all of it with 100 trials.",
        ],
    )
