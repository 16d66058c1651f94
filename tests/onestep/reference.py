"""Algorithm 1 and the selection around it once more: slow, plain, from the paper and the method's description.

Nothing here comes from the package: dense solves, one candidate at a time, every mean a sum over rows.
"""

from __future__ import annotations

import numpy as np

RHO, C_WELSCH = 4.685, 2.9846


def gaussians(X, centers, sigma):
    return np.array([[np.exp(-np.sum((x - c) ** 2) / (2 * sigma**2)) for c in centers] for x in X])


def loss_values(name, F, Y, scale=1.0):
    """l at rows; F and Y of shape (n, K). K > 1 is one against the rest with labels -1/+1."""
    if name == "squared":
        each = ((F - Y) / scale) ** 2
        return each[:, 0] if F.shape[1] == 1 else 0.5 * each.sum(axis=1)
    f, y = F[:, 0], Y[:, 0]
    if name == "tukey":
        u = (f - y) / (RHO * scale)
        return np.where(np.abs(u) <= 1, 1 - (1 - np.minimum(u**2, 1)) ** 3, 1.0)
    if name == "welsch":
        return 1 - np.exp(-(((f - y) / (C_WELSCH * scale)) ** 2))
    if name == "hinge":
        return np.maximum(0.0, 1 - y * f)
    if name == "logistic":
        return np.log(1 + np.exp(-y * f))
    raise KeyError(name)


def omega(name, f, y, scale):
    if name == "tukey":
        u = (f - y) / (RHO * scale)
        return 3 / (RHO * scale) ** 2 * np.maximum(1 - u**2, 0) ** 2
    return np.exp(-(((f - y) / (C_WELSCH * scale)) ** 2)) / (C_WELSCH * scale) ** 2


def mean(values, s):
    return sum(si * v for si, v in zip(s, values, strict=True)) / sum(s)


def g_step(Psi, Psi_target, l, reg, shrink, s, m=1.0):
    """beta before and after clipping, from one dense system (line 6 and 7)."""
    b = Psi.shape[1]
    H = sum(si * np.outer(p, p) for si, p in zip(s, Psi, strict=True)) / sum(s)
    h, p = Psi_target.mean(axis=0), mean(Psi, s)
    u, lbar = mean(l[:, None] * Psi, s), mean(l, s)
    A = H + np.outer(u, u) / m**2 + reg / m**2 * np.eye(b)
    right = h if shrink == "zero" else h - p - lbar / m**2 * u
    free = np.linalg.solve(A, right)
    return free, (np.maximum(free, 0) if shrink == "zero" else free)


def importance(Psi, beta, shrink):
    return Psi @ beta if shrink == "zero" else np.maximum(1 + Psi @ beta, 0)


def ridge(Phi, Y, w, reg, s, intercept):
    """(Phi'W Phi + reg n I)^-1 Phi'W Y (line 10); the intercept is not penalised."""
    P = np.hstack([Phi, np.ones((len(Phi), 1))]) if intercept else Phi
    R = np.eye(P.shape[1])
    if intercept:
        R[-1, -1] = 0
    W = np.diag(s * w)
    return np.linalg.solve(P.T @ W @ P + reg * sum(s) * R, P.T @ W @ Y)


def predict(Phi, alpha, intercept):
    P = np.hstack([Phi, np.ones((len(Phi), 1))]) if intercept else Phi
    return P @ alpha


def f_step(name, Phi, Y, w, reg, s, intercept, scale, alpha):
    """Lines 9 to 13; `alpha` is the start of IRLS, None for the quadratic that touches the loss at zero."""
    if name == "squared":
        return ridge(Phi, Y, w, reg, s, intercept)
    if alpha is None:
        alpha = ridge(Phi, Y, w * omega(name, 0.0, 0.0, scale), reg, s, intercept)
    for _ in range(1000):
        f = predict(Phi, alpha, intercept)[:, 0]
        new = ridge(Phi, Y, w * omega(name, f, Y[:, 0], scale), reg, s, intercept)
        done = np.abs(new - alpha).max() <= 1e-13 * np.abs(new).max()
        alpha = new
        if done:
            break
    return alpha


def objective(l, g, g_target, s, m=1.0):
    """(mean_s l g)^2 + m^2 (mean_s g^2 - 2 mean_t g), the paper's empirical objective without C."""
    return mean(l * g, s) ** 2 + m**2 * (mean(g**2, s) - 2 * g_target.mean())


def algorithm_1(
    Phi, Y, Psi, Psi_target, reg_f, reg_g, *, loss="squared", scale=1.0, shrink="zero", start="zero",
    max_iter=10, tol=0.0, intercept=False, s=None, coupling=1.0, m=1.0,
):  # fmt: skip
    """alpha, beta, history (clipped, unclipped) of one candidate; None where all weights are zero."""
    s = np.ones(len(Phi)) if s is None else s
    K = Y.shape[1]
    l = loss_values(loss, np.zeros((len(Y), K)), Y, scale) if start == "zero" else np.zeros(len(Y))
    alpha, history, previous = None, [], np.inf
    for _ in range(max_iter):
        free, beta = g_step(Psi, Psi_target, np.sqrt(coupling) * l, reg_g, shrink, s, m)
        w = importance(Psi, beta, shrink)
        if not w.any():
            return None
        alpha = f_step(loss, Phi, Y, w, reg_f, s, intercept, scale, alpha)
        l = loss_values(loss, predict(Phi, alpha, intercept), Y, scale)
        one = 1.0 if shrink == "one" else 0.0
        J = objective(l, w, importance(Psi_target, beta, shrink), s, m)
        history.append((J, objective(l, one + Psi @ free, one + Psi_target @ free, s, m)))
        if abs(J - previous) <= tol * max(abs(J), m**2):
            break
        previous = J
    return alpha, beta, history


def reference_weights(fold_Psi, folds, regs, s, m=1.0):
    """Loss-free uLSIF of each fold at its held-out rows, averaged over the grid of g.

    fold_Psi : one (Psi, Psi_target) a bandwidth_g.  Returns w at all rows (in row order; each row held out once),
    the cross-fitted mean of g over the target, n_eff.
    """
    n = len(fold_Psi[0][0])
    members = [(Psi, Psi_target, reg) for Psi, Psi_target in fold_Psi for reg in regs]
    J = np.zeros(len(members))
    at_rows, at_target = np.zeros((n, len(members))), np.zeros(len(members))
    for train, test, target_train, target_test in folds:
        for c, (Psi, Psi_target, reg) in enumerate(members):
            zero = np.zeros(len(train))
            _, beta = g_step(Psi[train], Psi_target[target_train], zero, reg, "zero", s[train], m)
            g, g_target = Psi[test] @ beta, Psi_target[target_test] @ beta
            J[c] += (mean(g**2, s[test]) - 2 * g_target.mean()) / len(folds)
            at_rows[test, c] = g
            at_target[c] += g_target.mean() / len(folds)
    share = np.exp(-(J - J.min()) / 0.03)
    share /= share.sum()
    w = np.maximum(at_rows @ share, 1e-9)
    return w, at_target @ share, sum(s * w) ** 2 / sum(s * w**2)


def corrected(w, s, held_out_error, F_source, F_target, v):
    """S = R_w + v (V_target - V_source)_+ ; F of shape (k, rows, K) are all fold models at all rows."""

    def variance(F):
        k = len(F)
        parts = [
            (k - 1) / k * sum((F[j, i] - F[:, i].mean(axis=0)) ** 2 for j in range(k)) for i in range(F.shape[1])
        ]
        each = np.array(parts).sum(axis=1)
        return 0.5 * each if F.shape[2] > 1 else each

    sw = s * w
    risk = sum(sw * held_out_error) / sum(sw)
    return risk + v * max(variance(F_target).mean() - sum(sw * variance(F_source)) / sum(sw), 0.0)


def averaging(S, n_eff, criterion, sharpness):
    """{candidate: q} of the kept candidates."""
    S = np.asarray(S, dtype=float)
    best = int(np.argmin(S))
    if criterion == "corrected":
        if S[best] <= 1e-12:
            return {best: 1.0}
        q = np.exp(-sharpness * n_eff * (S / S[best] - 1))
    else:
        q = np.exp(-(S - S[best]) / 0.03)
    kept = [c for c in range(len(S)) if q[c] >= 1e-3 * q.max()]
    return {c: q[c] / sum(q[k] for k in kept) for c in kept}


def fit_everything(
    X, Y, X_target, centers, folds, grid, *, criterion, selection, v, sharpness, intercept, s=None, query=None, **how
):
    """The whole search and the refit on all rows, in the units of the fit.

    grid : (bandwidths_f, bandwidths_g, regs_f, regs_g); candidates are numbered by bandwidth_f, bandwidth_g, reg_g,
    reg_f.  folds : (train, test, target_train, target_test) index arrays.  Returns scores, {candidate: q}, f and g
    at the query rows, the best candidate's history, n_eff and the reference's mean over the target.
    """
    bandwidths_f, bandwidths_g, regs_f, regs_g = grid
    s = np.ones(len(X)) if s is None else s
    Phi = {b: [gaussians(rows, centers, b) for rows in (X, X_target, query)] for b in {*bandwidths_f, *bandwidths_g}}
    candidates = [(bf, bg, rf, rg) for bf in bandwidths_f for bg in bandwidths_g for rg in regs_g for rf in regs_f]
    w, C, n_eff = reference_weights([Phi[bg][:2] for bg in bandwidths_g], folds, regs_g, s)
    scores = []
    for bf, bg, rf, rg in candidates:
        (P, P_t, _), (G, G_t, _) = Phi[bf], Phi[bg]
        models, J, error, F, F_t = [], [], np.zeros(len(X)), [], []
        for train, test, t_train, t_test in folds:
            fit = algorithm_1(
                P[train], Y[train], G[train], G_t[t_train], rf, rg, intercept=intercept, s=s[train], **how
            )
            models.append(fit)
            if fit is None:
                continue
            alpha, beta, _ = fit
            shrink = how["shrink"]
            l = loss_values(how["loss"], predict(P[test], alpha, intercept), Y[test], how.get("scale", 1.0))
            J.append(objective(l, importance(G[test], beta, shrink), importance(G_t[t_test], beta, shrink), s[test]))
            error[test] = loss_values("squared", predict(P[test], alpha, intercept), Y[test])
            F.append(predict(P, alpha, intercept))
            F_t.append(predict(P_t, alpha, intercept))
        if any(fit is None for fit in models):
            scores.append(np.inf)
        elif criterion == "objective":
            scores.append(np.mean(J))
        else:
            scores.append(corrected(w, s, error, np.array(F), np.array(F_t), v))
    q = {int(np.argmin(scores)): 1.0} if selection == "best" else averaging(scores, n_eff, criterion, sharpness)
    f_query, g_query, history = 0.0, 0.0, None
    for c, share in sorted(q.items(), key=lambda item: scores[item[0]]):
        bf, bg, rf, rg = candidates[c]
        (P, _, P_q), (G, G_t, G_q) = Phi[bf], Phi[bg]
        alpha, beta, rounds = algorithm_1(P, Y, G, G_t, rf, rg, intercept=intercept, s=s, **how)
        f_query = f_query + share * predict(P_q, alpha, intercept)
        g_query = g_query + share * importance(G_q, beta, how["shrink"])
        history = rounds if history is None else history
    return {"scores": scores, "q": q, "f": f_query, "g": g_query, "history": history, "n_eff": n_eff, "C": C}
