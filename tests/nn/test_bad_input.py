"""Every refusal is one sentence that names what was given and a way out."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from covshift.exceptions import AllWeightsZeroError
from covshift.nn import EarlyStopping, Fresh, OneStepTrainer, Pretraining, make_mlp

X = torch.linspace(-1, 1, 40).reshape(20, 2)
Y = torch.arange(20) % 2


def train(X=X, y=Y, X_target=X, f=None, g=None, **options):
    settings = {"rounds": 1, "epochs_g": 1, "epochs_f": 1, "pretrain_g": False, "batch_size": 8, "device": "cpu"}
    trainer = OneStepTrainer(f or make_mlp(2, 2, (4,)), g or make_mlp(2, 1, (4,)), **settings | options)
    return trainer.fit((X, y), X_target)


def test_without_torch_the_error_names_the_extra():
    code = "import sys, covshift; sys.modules['torch'] = None\nimport covshift.nn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtraError" in done.stderr and "covshift[nn]" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X_target": torch.zeros(5, 3)}, r"source rows have shape \(2,\), target rows \(3,\)"),
        ({"y": Y + 1}, "labels run from 1 to 2, but f has 2 outputs"),
        ({"y": Y - 1}, "labels run from -1 to 0"),
        ({"y": Y.float()}, "needs class numbers 0..1"),
        ({"g": make_mlp(2, 3)}, r"one number a row"),
        ({"loss": lambda o, y: nn.functional.cross_entropy(o, y)}, "one loss a row, not their mean"),
        ({"loss": "squared", "y": Y.float()}, r"must end in one number a row"),
        ({"X": X[:0], "y": Y[:0]}, "source data have no rows"),
        ({"X_target": X[:0]}, "target data have no rows"),
        ({"X": X[:5]}, "different numbers of rows"),
        ({"device": "cuda:7"}, "is not there"),
        ({"weights": "kliep"}, "weights='kliep' is not one of"),
        ({"loss": "hinge"}, "loss='hinge' is not one of"),
        ({"freeze_g": 2}, "wrap it as nn.Sequential"),
        ({"weights": "classifier"}, "pretrain_g must not be off"),
        ({"start_g": "afresh", "pretrain_g": 1}, "throws the pretraining away"),
        ({"weights": "ulsif", "pretrain_g": Pretraining(1, renew=1)}, "trains g once, before f"),
        ({"start_g": "afresh", "freeze_g": 1, "pretrain_g": Pretraining(1, renew=1)}, "use start_g='logit'"),
        ({"pretrain_g": Pretraining(1, renew=-1)}, "renew"),
        ({"weights": lambda rows: -torch.ones(len(rows))}, "finite and >= 0"),
        ({"weights": lambda rows: rows}, "one weight a row"),
        ({"precision": "fp8"}, "precision='fp8'"),
        ({"device": "foo"}, "device='foo' is not there"),
        ({"device": "cuda:-1"}, "device='cuda:-1' is not there"),
        ({"device": "meta"}, "device='meta' is not there"),
        ({"clip_grad": -1.0}, "clip_grad=-1.0"),
        ({"renew_g": 0}, "renew_g=0"),
        ({"early_stopping": EarlyStopping(0)}, "patience=0"),
        ({"pretrain_g": Pretraining(0, renew=1)}, "never trained"),
        ({"X": X * float("nan")}, "the source rows have NaN"),
        ({"X_target": X * float("inf")}, "the target rows have NaN or infinite"),
        ({"loss": "squared", "y": torch.full((20,), float("nan"))}, "the source y have NaN"),
        ({"f": make_mlp(3, 2)}, r"f does not take rows of shape \(2,\)"),
    ],
)
def test_a_sentence_says_what_is_wrong(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        train(**arguments)


def test_a_loss_that_is_not_a_number_names_batch_and_round():
    with pytest.raises(FloatingPointError, match=r"round 0, mini-batch \d+; lower optimizer_f's rate"):
        train(loss=lambda o, y: o.sum(1) * float("nan"), weights="uniform")


def test_a_g_that_explodes_names_its_own_rate():
    with pytest.raises(FloatingPointError, match="optimizer_g's rate"):
        train(epochs_g=50, optimizer_g=lambda p: torch.optim.SGD(p, lr=1e12))


def test_weights_that_are_all_zero_are_an_error():
    with pytest.raises(AllWeightsZeroError, match="weight zero to every source row"):
        train(weights=lambda rows: torch.zeros(len(rows)))


def test_a_target_loader_that_ends_early_and_cannot_start_again():
    with pytest.raises(ValueError, match="target loader ended after .* pass a DataLoader"):
        train(X_target=(batch for batch in [X[:8]]))


def test_a_short_target_loader_starts_again():
    trainer = train(X_target=DataLoader(TensorDataset(X[:4]), 4), output_g="softplus")
    assert trainer.n_iter_ == 1


def test_a_loss_that_returns_a_mean_is_found_before_anything_is_trained():
    trained = []

    class Counted(OneStepTrainer):
        def pretrain_step(self, source, target):
            trained.append(1)

    trainer = Counted(make_mlp(2, 2), make_mlp(2, 1), loss=lambda o, y: o.sum(1).mean() * 0, device="cpu")
    with pytest.raises(ValueError, match="one loss a row, not their mean"):
        trainer.fit((X, Y), X)
    assert not trained


def test_labels_that_only_a_loader_shows_are_checked():
    bad = Y.clone()
    bad[-1] = 7
    message = "labels run from . to 7, but f has 2 outputs"
    for source in (DataLoader(TensorDataset(X, bad), 8), Fresh(lambda generator: (X, bad))):
        for weights in ("one-step", "uniform"):
            trainer = OneStepTrainer(make_mlp(2, 2), make_mlp(2, 1), weights=weights, rounds=1, device="cpu")
            with pytest.raises(ValueError, match=message):
                trainer.fit(source, X)


def test_a_source_that_can_be_read_once_is_refused():
    batches = ((X[i : i + 8], Y[i : i + 8]) for i in range(0, 16, 8))
    with pytest.raises(TypeError, match="used up after one epoch; pass a list of mini-batches"):
        OneStepTrainer(make_mlp(2, 2), weights="uniform", device="cpu").fit(batches)


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_sample_weights_below_zero_or_missing_are_refused(value):
    with pytest.raises(ValueError, match="sample_weight has negative or non-finite"):
        OneStepTrainer(make_mlp(2, 2), weights="uniform", device="cpu").fit((X, Y, torch.full((20,), value)))


def test_a_pretraining_that_explodes_names_its_own_rate():
    with pytest.raises(FloatingPointError, match=r"lower Pretraining\(lr"):
        train(pretrain_g=Pretraining(3, lr=1e30))


def test_held_out_rows_without_weight_are_an_error():
    with pytest.raises(AllWeightsZeroError, match="held-out row"):
        train(weights=lambda rows: (rows[:, 0] < 0).float(), early_stopping=EarlyStopping(1, rows=(X[10:], Y[10:])))


def test_a_dataset_cannot_be_predicted_by_mistake():
    with pytest.raises(TypeError, match="got TensorDataset"):
        train(weights="uniform").predict(TensorDataset(X))


def test_an_empty_loader_is_refused():
    settings = {"rounds": 1, "device": "cpu"}
    with pytest.raises(ValueError, match="source loader gave no mini-batch"):
        OneStepTrainer(make_mlp(2, 2), weights="uniform", **settings).fit([])
