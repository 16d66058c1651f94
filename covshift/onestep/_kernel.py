"""The fit that `OneStepRegressor` and `OneStepClassifier` share: grids, search, refit, and the fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from covshift._split import Fold
from covshift.exceptions import AllWeightsZeroError
from covshift.onestep._alternate import Plan
from covshift.onestep._bound import RiskBound, estimate_risk_bound
from covshift.onestep._door import Entry
from covshift.onestep._generalization import TheoremInputs, theorem_inputs
from covshift.onestep._model import KernelModel
from covshift.onestep._sample import Prepared
from covshift.onestep._search import Grid, Refit, Scoring, SearchResult, averaging_weights, refit, search


@dataclass(frozen=True)
class KernelFit:
    """A finished fit: the model, the search that chose it, and the last fit of the kept candidates."""

    model: KernelModel
    grid: Grid
    result: SearchResult | None
    refit: Refit
    risk_bound: RiskBound
    theorem: TheoremInputs | None  # None with several outputs, which the theorems do not cover


def fit_kernel(
    entry: Entry,
    grid: Grid,
    folds: list[Fold] | None,
    plan: Plan,
    scoring: Scoring,
    factor: float,
    progress: Callable[[str], None],
    n_jobs: int | None,
) -> KernelFit:
    """Search the grid on the folds, refit what is kept on all rows; `folds` None only for a single candidate."""
    prepared = Prepared.of(entry.sample, grid.bandwidths_g)
    result = None
    if folds is None:
        index, q = np.zeros(1, dtype=int), np.ones(1)
    else:
        result = search(prepared, grid, folds, plan, scoring, progress, n_jobs)
        if not np.isfinite(result.scores).any():
            raise _nothing_left(grid, bool(result.fits.all_zero.all()), plan.loss.name)
        index, q = averaging_weights(result.scores, result.n_eff, scoring)
    final = refit(prepared, grid, index, plan)
    sound = np.isfinite(final.coef).all(axis=(0, 1)) & ~final.all_zero
    if not sound.any():
        raise _nothing_left(grid, bool(final.all_zero.all()), plan.loss.name)
    if not sound.all():  # a candidate that survived the folds may still fail on all rows
        index, q = index[sound], q[sound] / q[sound].sum()
        final = refit(prepared, grid, index, plan)
    bound = RiskBound(plan.m, float("nan"), float("nan"), float("nan"), True)
    if result is not None and folds is not None:
        bound = estimate_risk_bound(
            prepared, grid, folds, result.fits, result.reference, index, q, plan.shrink, plan.loss, factor, plan.m
        )
    params = grid.table(index)
    model = KernelModel(
        entry.units,
        entry.sample.basis,
        plan.shrink,
        params["bandwidth_f"],
        final.coef,
        final.intercept,
        params["bandwidth_g"],
        final.beta,
        q,
    )
    theorem = None
    if entry.sample.Y.shape[1] == 1:
        which = grid.columns.which[index % len(grid.columns)]
        theorem = theorem_inputs(prepared, model, which, plan.loss, factor, plan.m)
    return KernelFit(model, grid, result, final, bound, theorem)


def cv_results(grid: Grid, result: SearchResult | None) -> dict[str, Any]:
    """One entry a candidate: `params`, a column for each hyperparameter, `score` (lower is better) and `rank`."""
    columns = grid.table()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    params = [{"bandwidth_f": bf, "bandwidth_g": bg, "reg_f": rf, "reg_g": rg} for bf, bg, rf, rg in rows]
    table: dict[str, Any] = {"params": params}
    table |= {f"param_{name}": column for name, column in columns.items()}
    if result is not None:
        table["score"] = result.scores
        table["rank"] = np.argsort(np.argsort(result.scores, kind="stable"), kind="stable") + 1
        if result.fold_scores is not None:
            table |= {f"split{k}_score": column for k, column in enumerate(result.fold_scores.T)}
    return table


def _nothing_left(grid: Grid, all_zero: bool, loss: str) -> ValueError:
    tried = (
        f"bandwidth_f={_words(grid.bandwidths_f)}, bandwidth_g={_words(grid.bandwidths_g)}, "
        f"reg_f={_words(grid.regs_f)}, reg_g={_words(grid.regs_g)}"
    )
    if all_zero:
        return AllWeightsZeroError(
            f"every importance weight was clipped to zero for every candidate ({tried}): use a larger bandwidth_g or "
            "a larger reg_g, shrink='one', or check that source and target overlap"
        )
    if loss == "hinge":
        return ValueError(
            f"loss='hinge': only source rows of one class keep weight for every candidate ({tried}): use a larger "
            "bandwidth_g or reg_g, or loss='squared'"
        )
    return ValueError(
        f"no candidate gave finite numbers ({tried}): scale the inputs and y (standardize=True), or use a larger "
        "reg_f"
    )


def _words(values: tuple[float, ...]) -> str:
    return f"{values[0]:.3g}" if len(values) == 1 else f"{min(values):.3g}..{max(values):.3g}"
