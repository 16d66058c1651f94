"""The f-step for the logistic and the softmax loss: Newton's method with a certified gradient."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from covshift.exceptions import ConvergenceWarning
from covshift.losses import Loss
from covshift.onestep._f_step import FRows

NEWTON_ROUNDS = 100
GRADIENT_TOLERANCE = 1e-9


def newton_step(rows: FRows, W: np.ndarray, reg_f: np.ndarray, loss: Loss, alpha: np.ndarray) -> np.ndarray:
    """argmin_alpha mean w l(f) + reg_f |alpha|^2 for the logistic and the softmax loss; shape (q, K, c).

    Newton's method with step halving, from the current alpha. The certificate is the gradient: its largest entry is
    at most 1e-9 of the gradient at alpha = 0 (or of reg_f where that is larger), else a ConvergenceWarning. One more
    step follows, which squares what is left, so that weighted rows give what their copies give to nine digits.
    """
    new = np.empty_like(alpha)
    weights = W / rows.n if rows.s is None else W * rows.s[:, None] / rows.n
    for c in range(W.shape[1]):
        problem = _Penalised(rows, weights[:, c], float(reg_f[c]), loss)
        new[..., c] = problem.minimise(alpha[..., c])
    return new


class _Penalised:
    """sum_i w_i l(f(x_i), y_i) + reg |alpha|^2 with its gradient and Hessian; alpha of shape (q, K)."""

    def __init__(self, rows: FRows, w: np.ndarray, reg: float, loss: Loss) -> None:
        kept = w > 0
        self.Phi, self.w, self.loss = rows.Phi[kept], w[kept], loss
        self.ridge = reg * rows.penalty[:, None]
        self.binary = loss.task != "multiclass"
        Y = rows.Y[kept]
        self.y = Y[:, 0] if self.binary else Y.argmax(axis=1)

    def _scores(self, alpha: np.ndarray) -> np.ndarray:
        F = self.Phi @ alpha
        return F[:, 0] if self.binary else F

    def value(self, alpha: np.ndarray) -> float:
        return float(self.w @ self.loss.value(self._scores(alpha), self.y) + (self.ridge * alpha**2).sum())

    def gradient(self, alpha: np.ndarray) -> np.ndarray:
        d = self.loss.derivative(self._scores(alpha), self.y)
        d = d[:, None] if self.binary else d
        return self.Phi.T @ (self.w[:, None] * d) + 2.0 * self.ridge * alpha

    def hessian(self, alpha: np.ndarray) -> np.ndarray:
        """(K q, K q), blocks by output: phi phi' w (diag(p) - p p'); two classes share one output."""
        q, K = alpha.shape
        F = self._scores(alpha)
        if self.binary:
            p = 0.5 * (1.0 + np.tanh(0.5 * F))
            H = (self.Phi * (self.w * p * (1.0 - p))[:, None]).T @ self.Phi
        else:
            P = np.exp(F - F.max(axis=1, keepdims=True))
            P /= P.sum(axis=1, keepdims=True)
            H = np.empty((K, q, K, q))
            for j in range(K):
                for k in range(j + 1):
                    curve = self.w * P[:, j] * ((j == k) - P[:, k])
                    H[j, :, k, :] = H[k, :, j, :] = (self.Phi * curve[:, None]).T @ self.Phi
            H = H.reshape(K * q, K * q)
        H[np.diag_indices_from(H)] += 2.0 * np.tile(self.ridge[:, 0], K)
        return H

    def _direction(self, alpha: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Newton's, H^-1 gradient."""
        H = self.hessian(alpha)
        # Softmax scores are free up to a constant: a trace of the diagonal keeps the unpenalised part regular.
        H[np.diag_indices_from(H)] += 1e-12 * np.trace(H) / len(H)
        return cho_solve(cho_factor(H), gradient.T.ravel()).reshape(gradient.T.shape).T

    def minimise(self, alpha: np.ndarray) -> np.ndarray:
        alpha = np.nan_to_num(alpha)
        small = GRADIENT_TOLERANCE * max(np.abs(self.gradient(np.zeros_like(alpha))).max(), self.ridge.max())
        value, gradient = self.value(alpha), self.gradient(alpha)
        for _ in range(NEWTON_ROUNDS):
            direction = self._direction(alpha, gradient)
            if np.abs(gradient).max() <= small:
                last = alpha - direction
                return last if np.abs(self.gradient(last)).max() < np.abs(gradient).max() else alpha
            step, slope = 1.0, float((gradient * direction).sum())
            while step > 1e-10:
                trial = alpha - step * direction
                trial_value = self.value(trial)
                if trial_value <= value - 1e-4 * step * slope:
                    break
                step *= 0.5
            else:
                # No decrease left in double precision: the value is at its floor, the gradient decides.
                trial = alpha - direction
                if np.abs(self.gradient(trial)).max() >= np.abs(gradient).max():
                    break
                trial_value = self.value(trial)
            alpha, value, gradient = trial, trial_value, self.gradient(trial)
        if np.abs(gradient).max() > 1e3 * small:
            warnings.warn(
                f"the f-step stopped after {NEWTON_ROUNDS} Newton rounds with a gradient of "
                f"{np.abs(gradient).max():.2g} (wanted {small:.2g}); consider a larger reg_f",
                ConvergenceWarning,
                stacklevel=2,
            )
        return alpha
