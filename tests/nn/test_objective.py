"""The terms against sums written out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from covshift.nn.losses import LOSSES
from covshift.nn.objective import effective_sample_size, g_objective, weighted_loss
from covshift.nn.weights import OUTPUTS, g_value, to_weight

DRAW = torch.Generator().manual_seed(0)
L, G_SOURCE, G_TARGET = (torch.rand(n, generator=DRAW, dtype=torch.float64) for n in (7, 7, 5))


@pytest.mark.parametrize("alpha", [0.0, 0.4])
@pytest.mark.parametrize("m", [1.0, 0.5, math.inf])
def test_the_objective_is_its_formula(alpha, m):
    s = torch.tensor([0.0, 1, 2, 1, 1, 3, 0], dtype=torch.float64)
    J, risk, ratio = g_objective(L, G_SOURCE, G_TARGET, m, alpha, s)
    by_hand = sum(float(s[i] * L[i] * G_SOURCE[i]) for i in range(7)) / 8
    square = sum(float(s[i] * G_SOURCE[i] ** 2) for i in range(7)) / 8
    target = [sum(float(g) ** k for g in G_TARGET) / 5 for k in (1, 2)]
    expected = (1 - alpha) * square + alpha * target[1] - 2 * target[0]
    assert float(risk) == pytest.approx(by_hand) and float(ratio) == pytest.approx(expected)
    assert float(J) == pytest.approx(expected + (0.0 if math.isinf(m) else by_hand**2 / m**2))


def test_weights_are_normalised_in_the_mini_batch():
    assert float(weighted_loss(L, 10 * G_SOURCE)) == pytest.approx(float(weighted_loss(L, G_SOURCE)))
    assert float(weighted_loss(L, torch.ones(7))) == pytest.approx(float(L.mean()))
    assert float(effective_sample_size(torch.tensor([1.0, 1, 0]))) == pytest.approx(2.0)


def test_outputs_are_the_ratios_they_say():
    o = torch.linspace(-3, 3, 13, dtype=torch.float64)
    r = o.exp()
    torch.testing.assert_close(g_value(o, "exp"), r)
    torch.testing.assert_close(g_value(o, "relative", 0.3), r / (0.3 * r + 0.7))
    torch.testing.assert_close(g_value(o, "softplus"), torch.log1p(r))
    for output in OUTPUTS:
        w = to_weight(g_value(o, output), 0.5)
        assert bool((w >= 0).all()) and bool(torch.isfinite(w).all())


def test_losses_agree_with_the_cores():
    from covshift.losses import get_loss

    draw = torch.Generator().manual_seed(1)
    y, prediction = torch.randn(20, generator=draw) * 3, torch.randn(20, generator=draw) * 3
    for name in ("squared", "absolute", "huber", "tukey"):
        ours = LOSSES[name](prediction, y).double()
        core = get_loss(name).value(prediction.double().numpy(), y.double().numpy())
        ratio = ours / torch.as_tensor(core)
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), rtol=1e-4, atol=1e-5)
