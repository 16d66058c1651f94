"""Errors and warnings; each docstring is the explanation a user gets to read."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "AllWeightsZeroError",
    "ConvergenceWarning",
    "DataVerificationError",
    "MissingExtraError",
    "NoTargetWarning",
    "OverlapWarning",
    "ResumeMismatchError",
]


class AllWeightsZeroError(ValueError):
    """Every importance weight was clipped to zero, so there is nothing to learn from.

    The least-squares ratio model is linear in its parameters and may come out negative everywhere; clipping then
    leaves no source row with weight. A larger bandwidth or a larger regularisation of g lets the model reach the
    source rows. Uniform weights are never put in its place silently.
    """


class NoTargetWarning(UserWarning):
    """`fit` was called without `X_target`: there is no second sample to adapt to, so every weight is one.

    The estimator is then the plain regularised learner on the source rows. Pass the unlabelled target rows as
    `fit(X, y, X_target=...)`; inside scikit-learn's own searches wrap them as `covshift.Target(X_target)`.
    """


class OverlapWarning(UserWarning):
    """The weights rest on a handful of source rows, or much of the target lies where there is no source.

    Importance weighting cannot learn about regions that the source never visits; what the model says there is
    extrapolation. Collect labels nearer to the target, drop the inputs that separate the two samples, or use the
    unweighted model.
    """


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class DataVerificationError(ValueError):
    """A data file is not the published one (checksum or values differ), or a download was cut short."""


class ResumeMismatchError(ValueError):
    """Existing rows or a checkpoint were made with other settings or another version and cannot be continued."""
