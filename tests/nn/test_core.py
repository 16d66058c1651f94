"""The trainer on linear networks against the estimators of the core that everybody uses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from covshift import ULSIF, OneStepRegressor
from covshift.nn import OneStepTrainer
from covshift.ratio import RuLSIF

N, N_TARGET, CENTERS = 50, 40, 5


class Gaussians(nn.Module):
    """x -> sum_k weight_k exp(-|x - c_k|^2 / (2 sigma^2)), from zero."""

    def __init__(self, centers: np.ndarray, sigma: float) -> None:
        super().__init__()
        self.centers, self.sigma = torch.as_tensor(centers), sigma
        self.weight = nn.Parameter(torch.zeros(len(centers), dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        squares = ((x[:, None, :] - self.centers) ** 2).sum(dim=2)
        return torch.exp(-squares / (2 * self.sigma**2)) @ self.weight


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(1.0, 0.5, (N, 1)), rng.normal(1.5, 0.4, (N_TARGET, 1))
    return X, np.sinc(X[:, 0]) + 0.1 * rng.normal(size=N), X_target


def descended(f, g, decay_f, decay_g, **options) -> OneStepTrainer:
    """Full batches and gradient descent to convergence; torch's weight decay d is a ridge of d / 2."""
    settings = {
        "loss": "squared", "epochs_g": 400, "epochs_f": 400, "batch_size": N, "pretrain_g": False,
        "scheduler_f": None, "random_state": 0, "device": "cpu",
        "optimizer_g": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=decay_g, momentum=0.8),
        "optimizer_f": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=decay_f, momentum=0.8),
    }  # fmt: skip
    X, y, X_target = (torch.as_tensor(part) for part in rows())
    return OneStepTrainer(f, g, **settings | options).fit((X, y), X_target)


@pytest.mark.parametrize("sigma, reg, clipped", [(0.4, 0.3, False), (1.0, 0.1, True)])
@pytest.mark.parametrize("alpha", [0.0, 0.4])
def test_a_torch_layer_is_the_cores_ratio_before_its_clipping(sigma, reg, clipped, alpha):
    X, _, X_target = rows()
    common = {"bandwidth": sigma, "reg": reg, "n_centers": CENTERS, "standardize": False, "random_state": 0}
    core = RuLSIF(relative_alpha=alpha, **common) if alpha else ULSIF(**common)
    core.fit(X, X_target=X_target)
    g = Gaussians(core.centers_, sigma)
    weights = {"weights": "rulsif", "relative_alpha": alpha} if alpha else {"weights": "ulsif"}
    trainer = descended(Gaussians(core.centers_, sigma), g, 0.1, 2 * reg, rounds=1, epochs_f=1, **weights)
    beta = trainer.g_.weight.detach().numpy()
    assert bool((beta < 0).any()) is clipped
    np.testing.assert_allclose(np.maximum(beta, 0.0), core.coef_, atol=1e-6)
    if not clipped:
        np.testing.assert_allclose(trainer.predict_weights(torch.as_tensor(X)), core.weights_, atol=1e-6)


@pytest.mark.parametrize("rounds", [1, 6])
def test_the_trainer_is_algorithm_1_where_beta_is_not_negative(rounds):
    """Algorithm 1's ridge is on unnormalised weights: reg_f = (d_f / 2) mean(w), here with the last round's w."""
    X, y, X_target = rows()
    reg_f, reg_g, sigma_f, sigma_g = 0.05, 0.5, 0.5, 0.4
    core = OneStepRegressor.from_paper(
        bandwidth_f=sigma_f, bandwidth_g=sigma_g, reg_f=reg_f, reg_g=reg_g, n_centers=CENTERS, max_iter=rounds,
        random_state=0,
    ).fit(X, y, X_target=X_target)  # fmt: skip
    w = core.predict_weights(X)
    f, g = Gaussians(core.centers_, sigma_f), Gaussians(core.centers_, sigma_g)
    trainer = descended(f, g, 2 * reg_f / w.mean(), 2 * reg_g, rounds=rounds)
    X, X_target = torch.as_tensor(X), torch.as_tensor(X_target)
    assert bool((trainer.g_.weight > 0).all())
    np.testing.assert_allclose(trainer.predict_weights(X), w, atol=1e-4)
    np.testing.assert_allclose(trainer.predict(X_target), core.predict(X_target.numpy()), atol=1e-4)
    unweighted = descended(f, None, 2 * reg_f, 0.0, weights="uniform", rounds=1)
    assert np.abs(unweighted.predict(X_target).numpy() - core.predict(X_target.numpy())).max() > 1e-2
