"""The f-step for squared and redescending losses: weighted ridge for many candidates in one batch.

All candidates of a (fold, bandwidth_f) share the rows Phi. What differs are their weights, and the weights enter
the normal equations linearly: with the columns phi_i phi_j (i <= j) and phi_i y laid side by side, the systems of
all candidates are one matrix product with the matrix of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covshift.blocks import sum_over_blocks
from covshift.losses import Loss

# Below this size Cholesky over all candidates in lock step beats one LAPACK call a candidate.
_LOCKSTEP_SIZE = 32
# Rows' products phi_i phi_j are kept between rounds up to this many floats (64 MiB).
_KEPT_PRODUCTS = 1 << 23
IRLS_ROUNDS = 100
IRLS_TOLERANCE = 1e-7


@dataclass(frozen=True)
class FRows:
    """Source rows as f sees them, for one fold and one bandwidth_f.

    Phi has a last column of ones where there is an intercept; `penalty` is zero there and one elsewhere. `s` are
    frequencies (None: all one).
    """

    Phi: np.ndarray  # (n, q)
    Y: np.ndarray  # (n, K)
    penalty: np.ndarray  # (q,)
    s: np.ndarray | None = None

    @property
    def n(self) -> float:
        """Number of rows, counted by frequency."""
        return float(len(self.Phi)) if self.s is None else float(self.s.sum())

    @cached_property
    def products(self) -> np.ndarray | None:
        """`row_products` of all rows where they fit memory, else None (then each block makes its own)."""
        q, K = self.Phi.shape[1], self.Y.shape[1]
        if len(self.Phi) * (q * (q + 1) // 2 + q * K) > _KEPT_PRODUCTS:
            return None
        return row_products(self.Phi, self.Y, self.s)


def row_products(Phi: np.ndarray, Y: np.ndarray, s: np.ndarray | None) -> np.ndarray:
    """Columns s phi_i phi_j (i <= j, by rows of the upper triangle), then s phi_i y_k; (n, q(q+1)/2 + qK)."""
    n, q = Phi.shape
    K = Y.shape[1]
    left = Phi if s is None else Phi * s[:, None]
    out = np.empty((n, q * (q + 1) // 2 + q * K))
    start = 0
    for i in range(q):
        np.multiply(left[:, i : i + 1], Phi[:, i:], out=out[:, start : start + q - i])
        start += q - i
    out[:, start:] = (left[:, :, None] * Y[:, None, :]).reshape(n, q * K)
    return out


def normal_equations(rows: FRows, W: np.ndarray) -> np.ndarray:
    """Upper triangles of Phi'W_cPhi and right-hand sides Phi'W_cY for all columns of W; shape (P + qK, c)."""

    def sums(
        products: np.ndarray | None, Phi: np.ndarray, Y: np.ndarray, s: np.ndarray | None, W: np.ndarray
    ) -> np.ndarray:
        return (row_products(Phi, Y, s) if products is None else products).T @ W

    width = rows.Phi.shape[1] * (rows.Phi.shape[1] + 1) // 2 + W.shape[1]
    return sum_over_blocks(sums, rows.products, rows.Phi, rows.Y, rows.s, W, floats_per_row=width)


def solve_candidates(S: np.ndarray, ridge: np.ndarray, penalty: np.ndarray, K: int) -> np.ndarray:
    """alpha_c = (A_c + ridge_c diag(penalty))^-1 B_c for all candidates; S from `normal_equations`; (q, K, c)."""
    q, c = len(penalty), S.shape[1]
    P = q * (q + 1) // 2
    B = S[P:].reshape(q, K, c).copy()
    if q <= _LOCKSTEP_SIZE:
        return _lockstep_cholesky(S[:P].copy(), ridge, penalty, B)
    i, j = np.triu_indices(q)
    A = np.empty((c, q, q))
    A[:, i, j] = S[:P].T
    A[:, j, i] = S[:P].T
    A[:, np.arange(q), np.arange(q)] += ridge[:, None] * penalty
    return np.moveaxis(np.linalg.solve(A, np.moveaxis(B, 2, 0)), 0, 2)


def _lockstep_cholesky(U: np.ndarray, ridge: np.ndarray, penalty: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A = U'U of all candidates at once, then two triangular solves; overwrites U (packed upper rows) and B."""
    q = len(penalty)
    row = np.concatenate([[0], np.cumsum(np.arange(q, 0, -1))])  # where row i of the triangle starts
    for j in range(q):
        Uj = U[row[j] : row[j + 1]]
        Uj[0] += ridge * penalty[j]
        Uj *= 1.0 / np.sqrt(Uj[0])
        B[j] /= Uj[0]
        for k in range(j + 1, q):
            U[row[k] : row[k + 1]] -= Uj[k - j] * Uj[k - j :]
        B[j + 1 :] -= Uj[1:, None, :] * B[j]
    for j in range(q - 1, -1, -1):
        Uj = U[row[j] : row[j + 1]]
        if j + 1 < q:
            B[j] -= np.einsum("ic,ikc->kc", Uj[1:], B[j + 1 :])
        B[j] /= Uj[0]
    return B


def ridge_step(rows: FRows, W: np.ndarray, reg_f: np.ndarray) -> np.ndarray:
    """alpha = (Phi'W Phi + reg_f n I)^-1 Phi'W y  (Algorithm 1, line 10), all candidates; shape (q, K, c).

    Multiplying all weights by c equals dividing reg_f by c.
    """
    return solve_candidates(normal_equations(rows, W), reg_f * rows.n, rows.penalty, rows.Y.shape[1])


def irls_step(rows: FRows, W: np.ndarray, reg_f: np.ndarray, loss: Loss, alpha: np.ndarray) -> np.ndarray:
    """argmin_alpha mean w l(f) + reg_f |alpha|^2 by iteratively reweighted least squares  (line 12).

    alpha <- (Phi'W Omega Phi + reg_f n I)^-1 Phi'W Omega y with omega from l'(r) = 2 omega r, so reg_f keeps the
    scale it has beside the loss. Redescending losses are not convex: what is found depends on the start `alpha`.
    Every step lowers the objective (omega gives a quadratic that lies above the loss).
    """
    alpha = alpha.copy()
    active = np.arange(W.shape[1])
    y = rows.Y[:, :1]
    for _ in range(IRLS_ROUNDS):
        f = rows.Phi @ alpha[:, 0, active]
        Omega = loss.irls_weight(f, y)
        Omega *= W[:, active]
        new = ridge_step(rows, Omega, reg_f[active])
        change = np.abs(new - alpha[..., active]).max(axis=(0, 1))
        size = np.abs(new).max(axis=(0, 1))
        alpha[..., active] = new
        active = active[change > IRLS_TOLERANCE * np.maximum(size, 1e-300)]
        if not len(active):
            break
    return alpha
