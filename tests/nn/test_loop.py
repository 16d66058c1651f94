"""The trainer against the paper's closed forms, its settings against each other, and its records."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from covshift.nn import Fresh, OneStepTrainer, Pretraining, make_mlp
from covshift.nn.losses import resolve_loss
from covshift.nn.validation import EarlyStopping

N, N_TARGET, B_F, B_G = 40, 30, 3, 4
DECAY_F, DECAY_G = 0.3, 0.8


class Linear(nn.Module):
    """x -> (columns of x) @ parameter, from zero; both samples carry f's and g's features side by side."""

    def __init__(self, columns: slice, width: int) -> None:
        super().__init__()
        self.columns = columns
        self.weight = nn.Parameter(torch.zeros(width, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, self.columns] @ self.weight


def linear_problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    X = torch.rand(N, B_F + B_G, generator=draw, dtype=torch.float64)
    X_target = torch.rand(N_TARGET, B_F + B_G, generator=draw, dtype=torch.float64) ** 0.5
    return X, X[:, 0] - X[:, 1] + 0.1 * torch.randn(N, generator=draw, dtype=torch.float64), X_target


def linear_trainer(**options) -> OneStepTrainer:
    """Full batches, plain gradient descent to convergence: both steps become the closed forms."""
    f, g = Linear(slice(0, B_F), B_F), Linear(slice(B_F, None), B_G)
    settings = {
        "loss": "squared", "rounds": 3, "epochs_g": 120, "epochs_f": 120, "batch_size": N, "pretrain_g": False,
        "scheduler_f": None, "random_state": 0, "device": "cpu",
        "optimizer_g": lambda p: torch.optim.SGD(p, lr=0.2, weight_decay=DECAY_G, momentum=0.5),
        "optimizer_f": lambda p: torch.optim.SGD(p, lr=0.4, weight_decay=DECAY_F, momentum=0.5),
    }  # fmt: skip
    return OneStepTrainer(f, g, **settings | options)


def closed_form(X, y, X_target, rounds, m=1.0, with_losses=True, clip_beta=False):
    """Lines 5-10 of Algorithm 1 with reg_g = d_g / 2, reg_f = (d_f / 2) mean(w)."""
    X, y, X_target = X.numpy(), y.numpy(), X_target.numpy()
    Phi, Psi, Psi_target = X[:, :B_F], X[:, B_F:], X_target[:, B_F:]
    alpha = np.zeros(B_F)
    for _ in range(rounds):
        l = (Phi @ alpha - y) ** 2 * with_losses
        u = Psi.T @ l / N
        A = Psi.T @ Psi / N + np.outer(u, u) / m**2 + DECAY_G / 2 * np.eye(B_G)
        beta = np.linalg.solve(A, Psi_target.mean(axis=0))
        beta = np.maximum(beta, 0.0) if clip_beta else beta
        w = np.maximum(Psi @ beta, 0.0)
        reg_f = DECAY_F / 2 * w.mean()
        alpha = np.linalg.solve(Phi.T @ (w[:, None] * Phi) + reg_f * N * np.eye(B_F), Phi.T @ (w * y))
    return alpha, beta, w


@pytest.mark.parametrize("loss_bound", [1.0, 0.25])
def test_linear_networks_on_full_batches_give_algorithm_1(loss_bound):
    X, y, X_target = linear_problem()
    trainer = linear_trainer(loss_bound=loss_bound).fit((X, y), X_target)
    alpha, beta, w = closed_form(X, y, X_target, rounds=3, m=loss_bound)
    np.testing.assert_allclose(trainer.f_.weight.detach(), alpha, atol=1e-4)
    np.testing.assert_allclose(trainer.g_.weight.detach(), beta, atol=1e-4)
    np.testing.assert_allclose(trainer.predict_weights(X), w, atol=1e-4)
    if (beta >= 0).all():
        np.testing.assert_allclose(closed_form(X, y, X_target, 3, loss_bound, clip_beta=True)[1], beta)


def test_the_loss_term_matters_and_an_infinite_bound_is_ulsif():
    X, y, X_target = linear_problem()
    ulsif = linear_trainer(weights="ulsif", epochs_f=1).fit((X, y), X_target)
    no_losses = linear_trainer(loss_bound=math.inf, rounds=1, epochs_f=1).fit((X, y), X_target)
    beta = closed_form(X, y, X_target, 1, with_losses=False)[1]
    np.testing.assert_allclose(ulsif.g_.weight.detach(), beta, atol=1e-6)
    np.testing.assert_allclose(no_losses.g_.weight.detach(), beta, atol=1e-6)
    assert np.abs(closed_form(X, y, X_target, 2)[1] - beta).max() > 1e-3


def test_weights_of_one_are_uniform_and_frequencies_are_copies():
    X, y, X_target = linear_problem()
    uniform = linear_trainer(weights="uniform").fit((X, y), X_target)
    ones = linear_trainer(weights=lambda rows: torch.ones(len(rows))).fit((X, y), X_target)
    flat = linear_trainer(weights="ulsif", flattening=0.0).fit((X, y), X_target)
    torch.testing.assert_close(uniform.f_.weight, ones.f_.weight)
    torch.testing.assert_close(uniform.f_.weight, flat.f_.weight)
    s = torch.arange(N) % 3
    weighted = linear_trainer().fit((X, y, s.double()), X_target)
    copied = linear_trainer(batch_size=int(s.sum())).fit(
        (X.repeat_interleave(s, 0), y.repeat_interleave(s)), X_target
    )
    torch.testing.assert_close(weighted.f_.weight, copied.f_.weight, atol=1e-6, rtol=0)
    torch.testing.assert_close(weighted.g_.weight, copied.g_.weight, atol=1e-6, rtol=0)


def test_relative_ratio_is_its_closed_form():
    X, y, X_target = linear_problem()
    trainer = linear_trainer(weights="rulsif", relative_alpha=0.3, epochs_f=1).fit((X, y), X_target)
    Psi, Psi_target = X.numpy()[:, B_F:], X_target.numpy()[:, B_F:]
    H = 0.7 * Psi.T @ Psi / N + 0.3 * Psi_target.T @ Psi_target / N_TARGET + DECAY_G / 2 * np.eye(B_G)
    np.testing.assert_allclose(trainer.g_.weight.detach(), np.linalg.solve(H, Psi_target.mean(0)), atol=1e-6)


def rows(n=90, n_target=70):
    draw = torch.Generator().manual_seed(0)
    X, X_target = torch.randn(n, 2, generator=draw), torch.randn(n_target, 2, generator=draw) + 1
    return X, (X.sum(1) > 0).long(), X_target


def small(**options) -> OneStepTrainer:
    torch_free = {"rounds": 2, "epochs_g": 2, "epochs_f": 2, "pretrain_g": 2, "batch_size": 32, "random_state": 0}
    draw = torch.Generator().manual_seed(1)
    f, g = make_mlp(2, 2, (8,)), make_mlp(2, 1, (8,))
    for parameter in [*f.parameters(), *g.parameters()]:
        parameter.data = 0.5 * torch.randn(parameter.shape, generator=draw)
    return OneStepTrainer(f, g, **torch_free | {"device": "cpu", "freeze_g": 1} | options)


@pytest.mark.parametrize("weights", ["one-step", "uniform", "ulsif", "rulsif", "classifier", lambda X: X[:, 0].exp()])
@pytest.mark.parametrize("output_g", ["linear", "relative"])
def test_every_weighting_goes_through_the_loop(weights, output_g):
    X, y, X_target = rows()
    trainer = small(weights=weights, output_g=output_g).fit((X, y), X_target)
    assert trainer.n_iter_ == len(trainer.history_) == 2
    assert all(math.isfinite(record["loss"]) and 0 < record["ess"] <= 90.001 for record in trainer.history_)
    w = trainer.predict_weights(X_target.numpy())
    assert (w >= 0).all() and np.isfinite(w).all()
    assert set(np.unique(trainer.predict(X.numpy()))) <= {0, 1}


def test_arrays_datasets_and_fresh_rows_that_stand_still_are_one_thing():
    X, y, X_target = rows()
    tensors = small().fit((X, y), X_target)
    arrays = small().fit((X.numpy(), y.numpy()), X_target.numpy())
    dataset = small().fit(TensorDataset(X, y), X_target)
    fresh = small().fit(Fresh(lambda generator: (X, y)), Fresh(lambda generator: X_target))
    for other in (arrays, dataset, fresh):
        torch.testing.assert_close(tensors.predict_output(X), other.predict_output(X), rtol=0, atol=1e-6)


def test_a_full_batch_loader_gives_what_tensors_give():
    X, y, X_target = rows()
    options = {"batch_size": 128, "freeze_g": 0}
    tensors = small(**options).fit((X, y), X_target)
    loaders = small(**options).fit(DataLoader(TensorDataset(X, y), 128), DataLoader(TensorDataset(X_target), 128))
    torch.testing.assert_close(tensors.predict_output(X), loaders.predict_output(X), rtol=0, atol=1e-4)


def test_frozen_features_stay_as_pretrained_and_the_users_networks_as_they_were():
    X, y, X_target = rows()
    trainer = small(optimizer_g=lambda p: torch.optim.SGD(p, lr=0.1))
    before = {key: value.clone() for key, value in trainer.g.state_dict().items()}
    trainer.fit((X, y), X_target)
    pretrained = small(rounds=1, epochs_g=0, epochs_f=0).fit((X, y), X_target)
    torch.testing.assert_close(trainer.g_[0][0].weight, pretrained.g_[0][0].weight, rtol=0, atol=0)
    assert not torch.equal(trainer.g_[1].weight, pretrained.g_[1].weight)
    assert all(torch.equal(before[key], value) for key, value in trainer.g.state_dict().items())


def test_a_head_that_starts_afresh_does_not_start_from_the_classifier():
    X, y, X_target = rows()
    trainer = small(start_g="afresh", rounds=1, epochs_g=0, epochs_f=0).fit((X, y), X_target)
    torch.testing.assert_close(trainer.g_[1].weight, trainer.g[1].weight)


def test_a_renewed_classifier_is_the_one_that_trained_on():
    """With g's own epochs in between, its features after two renewals are those of a classifier of as many epochs."""
    X, y, X_target = rows()
    moved = {"optimizer_g": lambda p: torch.optim.SGD(p, lr=0.1), "epochs_f": 0}
    renewed = small(rounds=3, pretrain_g=Pretraining(2, renew=1), **moved).fit((X, y), X_target)
    longer = small(rounds=1, pretrain_g=4, epochs_g=0, epochs_f=0).fit((X, y), X_target)
    once = small(rounds=3, pretrain_g=2, **moved).fit((X, y), X_target)
    torch.testing.assert_close(renewed.g_[0][0].weight, longer.g_[0][0].weight, rtol=0, atol=0)
    assert not torch.equal(renewed.g_[0][0].weight, once.g_[0][0].weight)
    # g's last epochs start from the classifier's head, not from where they were.
    torch.testing.assert_close(renewed.run_.classifier_head["1.weight"], longer.g_[1].weight, rtol=0, atol=0)
    assert not torch.equal(renewed.g_[1].weight, longer.g_[1].weight)


def test_a_head_that_starts_again_has_no_momentum():
    X, y, X_target = rows()
    options = {"rounds": 3, "epochs_g": 1, "epochs_f": 0, "batch_size": 128, "pretrain_g": Pretraining(2, renew=1)}
    heads = [
        small(optimizer_g=lambda p, m=m: torch.optim.SGD(p, lr=0.1, momentum=m), **options)
        .fit((X, y), X_target)
        .g_[1]
        for m in (0.0, 0.9)
    ]  # one step of g a round: momentum has nothing to add
    torch.testing.assert_close(heads[0].weight, heads[1].weight, rtol=0, atol=0)


def test_mini_batches_without_weight_are_counted_and_skipped():
    X, y, X_target = rows()
    first = X[0].clone()
    trainer = small(weights=lambda x: (x == first).all(dim=1).float()).fit((X, y), X_target)
    assert [record["skipped"] for record in trainer.history_] == [4, 4]  # 2 epochs x 2 of the 3 mini-batches
    assert math.isfinite(trainer.history_[-1]["loss"])


def test_early_stopping_stops_and_goes_back_to_the_best_round():
    X, y, X_target = rows()
    held_out = (X[:30], 1 - y[:30])  # labels turned round: the better f learns, the worse it scores
    options = {"optimizer_f": lambda p: torch.optim.SGD(p, lr=1.0), "scheduler_f": None}
    stopped = small(rounds=12, early_stopping=EarlyStopping(2, rows=held_out), **options).fit((X, y), X_target)
    scores = [record["validation"] for record in stopped.history_]
    best = int(np.argmin(scores))
    assert stopped.n_iter_ == best + 3 < 12
    short = small(rounds=best + 1, **options).fit((X, y), X_target)
    torch.testing.assert_close(stopped.predict_output(X), short.predict_output(X), rtol=0, atol=0)


def test_the_rate_of_f_is_halved_every_four_rounds():
    X, y, X_target = rows()
    history = small(rounds=9, epochs_f=1, epochs_g=0, pretrain_g=False, weights="uniform").fit((X, y)).history_
    # Recorded at the end of a round, when the next one's rate is set.
    assert [record["rate_f"] for record in history] == [1e-3] * 3 + [5e-4] * 4 + [2.5e-4] * 2


def test_rows_of_g_are_drawn_as_often_as_asked():
    X, y, X_target = rows()
    drawn = []

    def draw(generator):
        drawn.append(generator.initial_seed())
        return X_target

    for renew, times in ((None, 2), (1, 4)):
        drawn.clear()
        small(renew_g=renew, pretrain_g=False, freeze_g=0).fit((X, y), Fresh(draw))
        assert len(set(drawn[2:])) == times, renew  # two draws only look at the shape; 2 rounds of 2 epochs


def test_gradient_clipping_bounds_the_step():
    X, y, X_target = rows()
    sgd = {"optimizer_f": lambda p: torch.optim.SGD(p, lr=1.0), "weights": "uniform", "scheduler_f": None}
    trainer = small(**sgd, rounds=1, epochs_f=1, batch_size=128, clip_grad=1e-3).fit((X, y), X_target)
    moved = [
        (a - b).detach().norm() ** 2 for a, b in zip(trainer.f_.parameters(), trainer.f.parameters(), strict=True)
    ]
    assert float(sum(moved)) ** 0.5 == pytest.approx(1e-3, rel=1e-3)


def test_rough_precision_is_checked_against_float32():
    X, y, X_target = rows()
    kept, exact = (small(precision=name).fit((X, y), X_target) for name in ("bf16", "float32"))
    assert kept.precision_ == "bf16"
    gap = (kept.predict_output(X) - exact.predict_output(X)).abs().max()
    assert 0 < gap < 0.05
    with pytest.warns(UserWarning, match="goes on in float32"):
        fallen = small(precision="bf16", loss=_sensitive, weights="uniform").fit((X, y), X_target)
    assert fallen.precision_ == "float32"
    with pytest.warns(UserWarning, match="goes on in float32"):
        small(precision="bf16", loss=_sensitive, weights="uniform").fit(DataLoader(TensorDataset(X, y), 32))


def _sensitive(output, y):
    return nn.functional.cross_entropy(1e4 * (output - output.round(decimals=1)), y, reduction="none")


def test_progress_says_losses_ess_and_time_left(capsys):
    X, y, X_target = rows()
    small(verbose=1).fit((X, y), X_target)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all("loss" in line and "ESS" in line and "left" in line for line in lines)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.bool])
def test_labels_of_any_whole_type_are_classes(dtype):
    X, y, X_target = rows()
    expected = small().fit((X, y), X_target).predict_output(X)
    torch.testing.assert_close(small().fit((X, y.to(dtype)), X_target).predict_output(X), expected, rtol=0, atol=0)


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "tukey"])
def test_numbers_to_regress_on_may_be_whole_or_a_column(loss):
    X, y, X_target = rows()
    f = make_mlp(2, 1, (8,))
    outputs = [
        OneStepTrainer(f, loss=loss, weights="uniform", rounds=1, epochs_f=2, device="cpu", random_state=0)
        .fit((X, kind))
        .predict(X)
        for kind in (y.float(), y, y.float()[:, None])
    ]
    for other in outputs[1:]:
        torch.testing.assert_close(outputs[0], other, rtol=0, atol=0)


def test_y_keeps_its_digits_beside_rough_outputs():
    y = torch.tensor([1.001, 2.003, 100.3])
    expected = (torch.tensor([1.0, 2.0, 100.0]) - y) ** 2
    rough = torch.tensor([[1.0], [2.0], [100.0]], dtype=torch.bfloat16)
    torch.testing.assert_close(resolve_loss("squared")(rough, y), expected, rtol=0, atol=0)


def test_a_users_loss_may_read_several_outputs():
    """Gaussian likelihood with a learned variance: two outputs a row, one loss."""
    X, _, X_target = rows()
    y = X[:, 0] + 0.1

    def likelihood(output, y):
        return (output[:, 0] - y) ** 2 * (-output[:, 1]).exp() + output[:, 1]

    options = {"output_g": "softplus", "optimizer_f": lambda p: torch.optim.Adam(p, lr=1e-2), "rounds": 3}
    trainer = small(loss=likelihood, epochs_f=20, **options).fit((X, y), X_target)
    assert trainer.predict(X).shape == (90, 2)
    assert float((trainer.predict(X)[:, 0] - y).abs().mean()) < 0.3


def test_networks_take_the_number_type_of_the_rows():
    X, y, X_target = rows()
    trainer = small().fit((X.double(), y), X_target.double())
    assert trainer.f_[1].weight.dtype == torch.float64
    single = trainer.predict_output(X)
    torch.testing.assert_close(single, trainer.predict_output(X.double()), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        trainer.predict_weights(X.numpy()), trainer.predict_weights(X).numpy(), atol=1e-6, rtol=0
    )


def test_rows_as_a_list_of_lists_are_rows_and_unsized_datasets_are_loaders():
    X, y, X_target = rows()
    expected = small().fit((X, y), X_target).predict_output(X)
    torch.testing.assert_close(small().fit((X, y), X_target.tolist()).predict_output(X), expected, rtol=0, atol=1e-5)

    class Endless(IterableDataset):
        def __iter__(self):
            return iter(X_target)

    assert small().fit((X, y), Endless()).n_iter_ == 2


def test_training_leaves_torchs_global_generator_alone():
    X, y, X_target = rows()
    f, g = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 2)), make_mlp(2, 1)
    before = torch.get_rng_state()
    results = [
        OneStepTrainer(f, g, output_g="softplus", rounds=1, epochs_f=2, pretrain_g=1, device="cpu", random_state=5)
        .fit((X, y), X_target)
        .predict_output(X)
        for _ in range(2)
    ]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*results)
