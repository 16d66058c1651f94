"""Every refusal is one sentence that names what was given and a way out."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from covshift.exceptions import AllWeightsZeroError
from covshift.nn import OneStepTrainer, Pretraining, make_mlp

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


def test_an_empty_loader_is_refused():
    settings = {"rounds": 1, "device": "cpu"}
    with pytest.raises(ValueError, match="source loader gave no mini-batch"):
        OneStepTrainer(make_mlp(2, 2), weights="uniform", **settings).fit([])
