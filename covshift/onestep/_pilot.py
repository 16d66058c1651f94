"""The unweighted pilot whose residuals set the scale of a loss."""

from __future__ import annotations

import numpy as np

from covshift._split import Fold
from covshift.losses import get_loss
from covshift.onestep._alternate import Plan, scores
from covshift.onestep._door import Entry
from covshift.onestep._sample import Prepared
from covshift.onestep._search import Grid, Scoring, search


def out_of_fold_residuals(entry: Entry, grid: Grid, folds: list[Fold] | None) -> tuple[np.ndarray, np.ndarray | None]:
    """(y - f at held-out rows, their frequencies) of one unweighted ridge fit, in units of the scaled y.

    Its bandwidth_f and reg_f are the grid's best by plain cross-validation. One scale for all candidates, folds and
    rounds: estimated for each candidate a bad fit would shrink its own loss.
    """
    if folds is None:
        raise ValueError("loss_scale='mad' needs out-of-fold residuals: give at least 4 source rows, or a number")
    plain = Grid(grid.bandwidths_f, grid.bandwidths_g[:1], grid.regs_f, (np.inf,))
    prepared = Prepared.of(entry.sample, plain.bandwidths_g)
    plan = Plan(get_loss("squared"), shrink="one", coupling=0.0, max_iter=1)
    result = search(prepared, plain, folds, plan, Scoring("corrected", 0.0, uniform=True))
    i, c = divmod(int(np.argmin(result.scores)), len(plain.columns))
    residuals = [
        entry.sample.Y[fold.test, 0] - scores(result.fits.bases[i].Phi[fold.test], alpha[..., c : c + 1])[:, 0, 0]
        for fold, alpha in zip(folds, result.fits.alpha[i], strict=True)
    ]
    s = entry.sample.s
    return np.concatenate(residuals), None if s is None else np.concatenate([s[fold.test] for fold in folds])
