"""The terms of the upper bound J(f, g), as functions of tensors whose last axis is the mini-batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["effective_sample_size", "g_objective", "ratio_term", "risk_term", "weighted_loss", "weighted_mean"]


def weighted_mean(values: Tensor, s: Tensor | None = None) -> Tensor:
    """mean_i values_i, or sum_i s_i values_i / sum_i s_i with frequencies s, over the last axis."""
    if s is None:
        return values.mean(dim=-1)
    return (s * values).sum(dim=-1) / s.sum(dim=-1)


def risk_term(l: Tensor, g_source: Tensor, s: Tensor | None = None) -> Tensor:
    """(1/n_s) sum_i l_i g(x_i): the weighted source risk whose square is J's first term."""
    return weighted_mean(l * g_source, s)


def ratio_term(
    g_source: Tensor,
    g_target: Tensor,
    relative_alpha: float = 0.0,
    s: Tensor | None = None,
) -> Tensor:
    """(1-a) mean_s g^2 + a mean_t g^2 - 2 mean_t g: the squared ratio error without its constant C.

    a = `relative_alpha` = 0 is uLSIF's criterion, the second term of J; a > 0 is RuLSIF's.
    """
    value = (1.0 - relative_alpha) * weighted_mean(g_source**2, s) - 2.0 * g_target.mean(dim=-1)
    if relative_alpha:
        value = value + relative_alpha * (g_target**2).mean(dim=-1)
    return value


def g_objective(
    l: Tensor | None,
    g_source: Tensor,
    g_target: Tensor,
    loss_bound: float = 1.0,
    relative_alpha: float = 0.0,
    s: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(J / m^2, risk term, ratio term), J / m^2 = (mean_s l g)^2 / m^2 + ratio_term, without C.

    J / m^2 is what a mini-batch of g descends on. m = `loss_bound`; `l=None` or m = inf leave the loss term out,
    which is the plain ratio fit. On a mini-batch of B rows the first term is too large by Var(l g) / (B m^2) on
    average (a squared mean is not unbiased): small batches punish weights on uneven losses more than J does.
    """
    ratio = ratio_term(g_source, g_target, relative_alpha, s)
    risk = torch.zeros_like(ratio) if l is None else risk_term(l, g_source, s)
    if l is None or math.isinf(loss_bound):
        return ratio, risk, ratio
    return ratio + risk**2 / loss_bound**2, risk, ratio


def weighted_loss(l: Tensor, w: Tensor) -> Tensor:
    """sum_j w_j l_j / sum_j w_j: Algorithm 2's L_i, with the weights normalised in the mini-batch."""
    return (w * l).sum(dim=-1) / w.sum(dim=-1)


def effective_sample_size(w: Tensor, s: Tensor | None = None) -> Tensor:
    """(sum s w)^2 / sum s w^2 of weights w of rows with frequencies s; zero where all weights are zero."""
    sw = w if s is None else s * w
    total, squares = sw.sum(dim=-1), (sw * w).sum(dim=-1)
    return total**2 / squares.clamp_min(1e-38)
