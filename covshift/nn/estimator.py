"""scikit-learn's door to the trainer: arrays in, arrays out, a default network where none is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from covshift._checks import check_target, check_weights, no_target
from covshift.nn.checkpoint import run_seed
from covshift.nn.door import check_outputs
from covshift.nn.loop import OneStepTrainer
from covshift.nn.losses import RowLoss
from covshift.nn.networks import make_network
from covshift.nn.objective import effective_sample_size
from covshift.nn.pretraining import OptimizerFactory, Pretraining
from covshift.nn.validation import EarlyStopping
from covshift.nn.weights import resolve_mode

__all__ = ["OneStepNetClassifier", "OneStepNetRegressor"]

_DOOR: dict[str, Any] = {"dtype": [np.float64, np.float32], "allow_nd": True}


class _OneStepNet(BaseEstimator):
    """What both estimators share: inputs, the trainer, weights."""

    _coded: Callable[[np.ndarray], np.ndarray]  # y as the network learns it

    def __init__(
        self,
        f: nn.Module | None = None,
        g: nn.Module | None = None,
        *,
        loss: str | RowLoss = "cross_entropy",
        weights: str | Callable[[Tensor], Tensor] = "one-step",
        flattening: float = 1.0,
        relative_alpha: float | None = None,
        loss_bound: float = 1.0,
        output_g: str = "linear",
        bound_alpha: float = 0.5,
        start_g: str = "logit",
        rounds: int = 20,
        epochs_g: int = 5,
        epochs_f: int = 10,
        batch_size: int = 128,
        optimizer_f: OptimizerFactory | None = None,
        optimizer_g: OptimizerFactory | None = None,
        pretrain_g: bool | int | Pretraining = True,
        freeze_g: int | None = None,
        clip_grad: float | None = None,
        early_stopping: EarlyStopping | None = None,
        standardize: bool = True,
        device: str = "auto",
        precision: str = "auto",
        checkpoint: str | Path | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.f = f
        self.g = g
        self.loss = loss
        self.weights = weights
        self.flattening = flattening
        self.relative_alpha = relative_alpha
        self.loss_bound = loss_bound
        self.output_g = output_g
        self.bound_alpha = bound_alpha
        self.start_g = start_g
        self.rounds = rounds
        self.epochs_g = epochs_g
        self.epochs_f = epochs_f
        self.batch_size = batch_size
        self.optimizer_f = optimizer_f
        self.optimizer_g = optimizer_g
        self.pretrain_g = pretrain_g
        self.freeze_g = freeze_g
        self.clip_grad = clip_grad
        self.early_stopping = early_stopping
        self.standardize = standardize
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: np.ndarray, y: np.ndarray, X_target: Any, sample_weight: Any, n_outputs: int) -> None:
        s_given = check_weights(sample_weight, X)
        X_target = check_target(self, X_target, **_DOOR)
        weights: Any = self.weights
        if not callable(weights) and X_target is None and resolve_mode(weights).uses_g:
            no_target(self)
            weights = "uniform"
        X_given = X
        X, y, s = _canonical(X, self._coded(y), s_given)
        self._learn_scale(X, X_target, s)
        seed = run_seed(self.random_state, self.checkpoint)
        if callable(weights):
            weights = _InGivenUnits(weights, self.center_, self.scale_, channels=X.ndim != 3)
        rows = self._rows(X)
        self.row_shape_ = rows.shape[1:]
        f = self.f if self.f is not None else make_network(rows.shape[1:], n_outputs, seed, 0)
        g = self.g if self.g is not None else make_network(rows.shape[1:], 1, seed, 1)
        # A default g keeps its pretrained convolutions, as the paper does; a network for rows is trained whole.
        freeze = self.freeze_g if self.freeze_g is not None else int(self.g is None and rows.ndim == 4)
        names = set(OneStepTrainer.__init__.__annotations__) & set(self.get_params(deep=False))
        options = {name: getattr(self, name) for name in names} | {"freeze_g": freeze, "random_state": seed}
        options |= {"f": f, "g": g, "weights": weights, "early_stopping": self._held_out()}
        check_outputs(f, torch.from_numpy(rows[:2]), n_outputs)
        trainer = OneStepTrainer(**options)
        source = (rows, y) if s is None else (rows, y, s.astype(np.float32))
        trainer.fit(source, None if X_target is None else self._rows(X_target))
        self.trainer_ = trainer
        self.f_, self.g_ = trainer.f_, trainer.g_
        self.history_, self.n_iter_ = trainer.history_, trainer.n_iter_
        self.weights_ = np.asarray(trainer.predict_weights(self._rows(X_given)))
        w = torch.from_numpy(self.weights_).double()
        self.ess_ = float(effective_sample_size(w, None if s_given is None else torch.from_numpy(s_given)))

    def _held_out(self) -> EarlyStopping | None:
        """Held-out rows of the user's, as the network sees rows."""
        if self.early_stopping is None or self.early_stopping.rows is None:
            return self.early_stopping
        X, y, *s = self.early_stopping.rows
        X = check_array(X, **_DOOR)
        return replace(self.early_stopping, rows=(self._rows(X), self._coded(np.asarray(y)), *s))

    def _learn_scale(self, X: np.ndarray, X_target: np.ndarray | None, s: np.ndarray | None) -> None:
        """Rows are z-scored on both samples pooled; images are left as they are."""
        self.center_: np.ndarray | float = 0.0
        self.scale_: np.ndarray | float = 1.0
        if self.standardize and X.ndim == 2:
            repeated = np.ones(len(X)) if s is None else s
            weight = repeated if X_target is None else np.concatenate([repeated, np.ones(len(X_target))])
            pooled = X if X_target is None else np.concatenate([X, X_target])
            self.center_ = np.average(pooled, axis=0, weights=weight)
            spread = np.sqrt(np.average((pooled - self.center_) ** 2, axis=0, weights=weight))
            self.scale_ = np.where(spread > 0, spread, 1.0)

    def _rows(self, X: np.ndarray) -> np.ndarray:
        """float32 rows, or images with a channel axis."""
        rows = ((X - self.center_) / self.scale_).astype(np.float32)
        return rows[:, None] if rows.ndim == 3 else rows

    def _output(self, X: Any) -> tuple[np.ndarray, np.dtype[Any]]:
        """f's outputs in the network's precision, and the number type of X."""
        check_is_fitted(self)
        X = self._validated(X)
        return self.trainer_.predict_output(self._rows(X)).cpu().numpy(), X.dtype

    def _validated(self, X: Any) -> np.ndarray:
        """Rows of the fitted shape; scikit-learn's count of features takes the second axis, which images may lack."""
        images = len(self.row_shape_) == 3
        X = check_array(X, **_DOOR) if images else validate_data(self, X, reset=False, **_DOOR)
        shape = self._rows(X).shape[1:]
        if shape != self.row_shape_:
            raise ValueError(
                f"X has rows of shape {shape}, but {type(self).__name__} was fitted on {self.row_shape_}."
            )
        return X

    def predict_weights(self, X: Any) -> np.ndarray:
        """The weights >= 0 that f's training uses, for any rows."""
        check_is_fitted(self)
        return np.asarray(self.trainer_.predict_weights(self._rows(self._validated(X))))


class OneStepNetClassifier(ClassifierMixin, _OneStepNet):
    """A network classifier trained with a weight network in alternation (`OneStepTrainer`), for scikit-learn.

    Without `f` and `g` the networks are two hidden layers of 64 for rows and the paper's 5-layer CNN for images,
    (n, height, width) or (n, channels, height, width). The other parameters are `OneStepTrainer`'s; `freeze_g=None`
    freezes the convolutions of the default g for images. Rows are z-scored on both samples unless
    `standardize=False`.
    Whole-number `sample_weight` repeats rows; other weights multiply the losses. A function given as `weights` and
    the rows of `EarlyStopping` are in the units of X and y.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(size=(200, 2)), rng.normal(1.0, 1.0, size=(100, 2))
    >>> model = OneStepNetClassifier(rounds=2, random_state=0).fit(X, X.sum(1) > 0, X_target=X_target)
    >>> model.predict_proba(X_target).shape
    (100, 2)
    """

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None) -> OneStepNetClassifier:
        """Train on labelled source rows and unlabelled target rows; without `X_target` every weight is one."""
        X, y = validate_data(self, X, y, **_DOOR)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._fit(X, y, X_target, sample_weight, len(self.classes_))
        return self

    def _coded(self, y: np.ndarray) -> np.ndarray:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"held-out labels {unknown[:5].tolist()} are not among the classes of y.")
        return np.searchsorted(self.classes_, y).astype(np.int64)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest output."""
        codes = self._output(X)[0].argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Softmax of the outputs, (rows, classes)."""
        output, dtype = self._output(X)
        return torch.softmax(torch.from_numpy(output).double(), dim=1).numpy().astype(dtype)

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs (rows, classes); for two classes the difference of the two, (rows,)."""
        output, _ = self._output(X)
        return output[:, 1] - output[:, 0] if len(self.classes_) == 2 else output


class OneStepNetRegressor(RegressorMixin, _OneStepNet):
    """A network for regression trained with a weight network in alternation (`OneStepTrainer`), for scikit-learn.

    As `OneStepNetClassifier`; y is centred and scaled by the source's standard deviation inside.
    """

    def __init__(
        self,
        f: nn.Module | None = None,
        g: nn.Module | None = None,
        *,
        loss: str | RowLoss = "squared",
        weights: str | Callable[[Tensor], Tensor] = "one-step",
        flattening: float = 1.0,
        relative_alpha: float | None = None,
        loss_bound: float = 1.0,
        output_g: str = "linear",
        bound_alpha: float = 0.5,
        start_g: str = "logit",
        rounds: int = 20,
        epochs_g: int = 5,
        epochs_f: int = 10,
        batch_size: int = 128,
        optimizer_f: OptimizerFactory | None = None,
        optimizer_g: OptimizerFactory | None = None,
        pretrain_g: bool | int | Pretraining = True,
        freeze_g: int | None = None,
        clip_grad: float | None = None,
        early_stopping: EarlyStopping | None = None,
        standardize: bool = True,
        device: str = "auto",
        precision: str = "auto",
        checkpoint: str | Path | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        # scikit-learn reads parameters off this signature, so it is written out with the one default that differs.
        super().__init__(
            f, g, loss=loss, weights=weights, flattening=flattening, relative_alpha=relative_alpha,
            loss_bound=loss_bound, output_g=output_g, bound_alpha=bound_alpha, start_g=start_g, rounds=rounds,
            epochs_g=epochs_g, epochs_f=epochs_f, batch_size=batch_size, optimizer_f=optimizer_f,
            optimizer_g=optimizer_g, pretrain_g=pretrain_g, freeze_g=freeze_g, clip_grad=clip_grad,
            early_stopping=early_stopping, standardize=standardize, device=device, precision=precision,
            checkpoint=checkpoint, random_state=random_state, verbose=verbose,
        )  # fmt: skip

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None) -> OneStepNetRegressor:
        """Train on labelled source rows and unlabelled target rows; without `X_target` every weight is one."""
        X, y = validate_data(self, X, y, y_numeric=True, **_DOOR)
        s = check_weights(sample_weight, X)
        y = np.asarray(y, dtype=np.float64)
        self.y_center_ = float(np.average(y, weights=s))
        spread = float(np.sqrt(np.average((y - self.y_center_) ** 2, weights=s)))
        self.y_scale_ = spread if spread > 0 else 1.0
        self._fit(X, y, X_target, s, 1)
        return self

    def _coded(self, y: np.ndarray) -> np.ndarray:
        return ((y - self.y_center_) / self.y_scale_).astype(np.float32)

    def predict(self, X: Any) -> np.ndarray:
        """The network's output in units of y."""
        output, dtype = self._output(X)
        return (output.reshape(len(output)).astype(np.float64) * self.y_scale_ + self.y_center_).astype(dtype)


@dataclass(frozen=True)
class _InGivenUnits:
    """A user's function of the rows, on rows as the user gave them, not as the network sees them."""

    weights: Callable[[Tensor], Tensor]
    center: np.ndarray | float
    scale: np.ndarray | float
    channels: bool

    def __call__(self, rows: Tensor) -> Tensor:
        center, scale = (torch.as_tensor(v, dtype=rows.dtype, device=rows.device) for v in (self.center, self.scale))
        return self.weights((rows if self.channels else rows.squeeze(1)) * scale + center)


def _canonical(
    X: np.ndarray, y: np.ndarray, s: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows of weight zero left out, whole-number weights written out as copies, rows sorted by content.

    Mini-batches depend on the order of the rows; in this order weight k is k copies to the last bit.
    """
    if s is not None:
        X, y, s = X[s > 0], y[s > 0], s[s > 0]
        if np.array_equal(s, np.round(s)) and s.sum() <= 100 * len(s):
            copies = s.astype(np.int64)
            X, y, s = np.repeat(X, copies, axis=0), np.repeat(y, copies), None
    keys = np.ascontiguousarray(np.column_stack([X.reshape(len(X), -1), y]))
    order = np.argsort(keys.view([("row", np.void, keys.strides[0])]).ravel(), kind="stable")
    return X[order], y[order], None if s is None else s[order]
