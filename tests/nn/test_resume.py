"""A run that is killed between any two steps goes on to the same bits; foreign checkpoints are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from covshift.exceptions import ResumeMismatchError
from covshift.nn import OneStepTrainer, Pretraining
from covshift.nn.validation import EarlyStopping

STEPS = 2 * 3 + 2 * (1 * 3 + 2 * 3)  # pretraining, then two rounds of g and f, three mini-batches an epoch


class KilledError(Exception):
    """Stands for kill -9: nothing after it runs."""


class Killed(OneStepTrainer):
    """Dies before its step number `last`."""

    last = -1

    def _tick(self, *place, force=False):
        if self.last == 0:
            raise KilledError
        self.last -= place[-1] > 0
        super()._tick(*place, force=force)


def problem():
    draw = torch.Generator().manual_seed(0)
    X, X_target = torch.randn(96, 2, generator=draw), torch.randn(70, 2, generator=draw) + 1
    return (X, (X.sum(1) > 0).long()), X_target


def make(kind=OneStepTrainer, **options):
    with torch.random.fork_rng():
        torch.set_rng_state(torch.Generator().manual_seed(4).get_state())
        f = nn.Sequential(nn.Linear(2, 6), nn.Dropout(0.3), nn.ReLU(), nn.Linear(6, 2))
        g = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1))
    settings = {
        "rounds": 2, "epochs_g": 1, "epochs_f": 2, "pretrain_g": 2, "batch_size": 32, "device": "cpu",
        "output_g": "softplus", "random_state": 0, "early_stopping": EarlyStopping(5, rows=problem()[0]),
        "checkpoint_every": 0.0,
    }  # fmt: skip
    return kind(f, g, **settings | options)


def test_a_run_killed_between_any_two_steps_ends_in_the_same_bits(tmp_path):
    whole = make().fit(*problem())
    for last in (1, 6, 8, 11, STEPS - 1):  # in pretraining, at a phase's edge, in g, in f, before the last step
        folder = tmp_path / str(last)
        killed = make(Killed, checkpoint=folder)
        killed.last = last
        with pytest.raises(KilledError):
            killed.fit(*problem())
        again = make(checkpoint=folder).fit(*problem())
        for name, value in whole.f_.state_dict().items():
            assert torch.equal(value, again.f_.state_dict()[name]), (last, name)
        for name, value in whole.g_.state_dict().items():
            assert torch.equal(value, again.g_.state_dict()[name]), (last, name)
        losses = [[record["loss"] for record in trainer.history_] for trainer in (whole, again)]
        assert losses[0] == losses[1]


def test_a_run_that_renews_its_classifier_is_resumed_to_the_same_bits(tmp_path):
    options = {"pretrain_g": Pretraining(2, renew=1), "freeze_g": 2}
    whole = make(**options).fit(*problem())
    for last in (15, 16, 17, 18, 20):  # at the end of the first round, in the renewal, at its end, in g, in f
        killed = make(Killed, checkpoint=tmp_path / str(last), **options)
        killed.last = last
        with pytest.raises(KilledError):
            killed.fit(*problem())
        again = make(checkpoint=tmp_path / str(last), **options).fit(*problem())
        for name, value in whole.run_.network_tensors().items():
            assert torch.equal(value, again.run_.network_tensors()[name]), (last, name)


class Noisy(Dataset):
    """Rows with fresh noise of torch's global generator, as random augmentation has."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i] + 0.1 * torch.randn(2), self.y[i]


@pytest.mark.parametrize("kind", ["shuffling source", "shuffling target", "augmenting dataset"])
def test_loaders_that_draw_from_the_global_generator_are_resumed_inside_an_epoch(tmp_path, kind):
    (X, y), X_target = problem()
    source, target = (X, y), X_target
    if kind == "shuffling source":
        source = DataLoader(TensorDataset(X, y), 32, shuffle=True)
    elif kind == "shuffling target":
        target = DataLoader(TensorDataset(X_target), 32, shuffle=True)
    else:
        source = Noisy(X, y)
    before = torch.get_rng_state()
    whole = make().fit(source, target)
    assert torch.equal(before, torch.get_rng_state())
    for last in (1, 7, 10, STEPS - 1):
        killed = make(Killed, checkpoint=tmp_path / str(last))
        killed.last = last
        with pytest.raises(KilledError):
            killed.fit(source, target)
        again = make(checkpoint=tmp_path / str(last)).fit(source, target)
        for name, value in whole.run_.network_tensors().items():
            assert torch.equal(value, again.run_.network_tensors()[name]), (last, name)


def test_schedule_precision_and_validation_go_on_where_they_were(tmp_path):
    options = {
        "rounds": 4, "precision": "bf16",
        "scheduler_f": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=3, gamma=0.5),
    }  # fmt: skip
    records = [[{k: v for k, v in r.items() if k != "seconds"} for r in make(**options).fit(*problem()).history_]]
    assert [record["rate_f"] for record in records[0]] == [1e-3, 5e-4, 2.5e-4, 2.5e-4]
    killed = make(Killed, checkpoint=tmp_path, **options)
    killed.last = 28
    with pytest.raises(KilledError):
        killed.fit(*problem())
    history = make(checkpoint=tmp_path, **options).fit(*problem()).history_
    assert records[0] == [{k: v for k, v in record.items() if k != "seconds"} for record in history]


def test_without_a_seed_a_checkpoint_is_continued_with_its_own(tmp_path):
    killed = make(Killed, checkpoint=tmp_path, random_state=None)
    killed.last = 12
    with pytest.raises(KilledError):
        killed.fit(*problem())
    assert make(checkpoint=tmp_path, random_state=None).fit(*problem()).seed_ == killed.seed_


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3)


def quick(parameters):
    return torch.optim.Adam(parameters, lr=0.1)


@pytest.mark.parametrize(
    "changed",
    [
        {"optimizer_f": sgd}, {"optimizer_f": quick}, {"optimizer_g": quick}, {"scheduler_f": None},
        {"pretrain_g": Pretraining(2, lr=0.1)}, {"precision": "bf16"}, {"early_stopping": None},
        {"early_stopping": EarlyStopping(1, rows=problem()[0])},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, changed):
    make(checkpoint=tmp_path).fit(*problem())
    with pytest.raises(ResumeMismatchError, match="belongs to another run"):
        make(checkpoint=tmp_path, **changed).fit(*problem())


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    make(checkpoint=tmp_path).fit(*problem())
    (X, y), X_target = problem()
    for other in [((3 * X, y), X_target), ((X, 1 - y), X_target), ((X, y), 2 * X_target)]:
        with pytest.raises(ResumeMismatchError, match="data: "):
            make(checkpoint=tmp_path).fit(*other)


DYING = """
import os, signal, sys, torch
from tests.nn.test_resume import Killed, KilledError, make, problem
torch.set_num_threads(1)
killed = make(Killed, checkpoint=sys.argv[1])
killed.last = 11
try:
    killed.fit(*problem())
except KilledError:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on this system")
def test_a_process_killed_with_sigkill_is_continued_to_the_same_bits(tmp_path):
    root = Path(__file__).parents[2]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", DYING, str(tmp_path)], cwd=root, env=environment, timeout=60)
    assert done.returncode == -signal.SIGKILL
    place = json.loads((tmp_path / "state.json").read_text())["cursor"]
    assert place["round"] == 0 and place["phase"] == "f"
    whole, again = make().fit(*problem()), make(checkpoint=tmp_path).fit(*problem())
    for name, value in whole.run_.network_tensors().items():
        assert torch.equal(value, again.run_.network_tensors()[name]), name


def test_only_one_tensor_file_stays_and_nothing_is_pickled(tmp_path):
    make(checkpoint=tmp_path).fit(*problem())
    names = sorted(path.suffix for path in tmp_path.iterdir())
    assert names == [".json", ".safetensors"]
    assert json.loads((tmp_path / "state.json").read_text())["format"] == 2


def test_a_checkpoint_of_another_architecture_setting_or_format_is_refused(tmp_path):
    make(checkpoint=tmp_path).fit(*problem())
    other = make(checkpoint=tmp_path)
    other.f = nn.Linear(2, 2)
    with pytest.raises(ResumeMismatchError, match="f: .*another folder"):
        other.fit(*problem())
    with pytest.raises(ResumeMismatchError, match="batch_size: 32 there, 16 here"):
        make(checkpoint=tmp_path, batch_size=16).fit(*problem())
    index = tmp_path / "state.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"format": 99}))
    with pytest.raises(ResumeMismatchError, match="format 99"):
        make(checkpoint=tmp_path).fit(*problem())


def test_an_interrupt_keeps_the_checkpoint(tmp_path):
    class Interrupted(OneStepTrainer):
        def f_step(self, batch, t, step):
            if t == 1:
                raise KeyboardInterrupt
            super().f_step(batch, t, step)

    with pytest.raises(KeyboardInterrupt):
        make(Interrupted, checkpoint=tmp_path).fit(*problem())
    again = make(checkpoint=tmp_path).fit(*problem())
    assert torch.equal(make().fit(*problem()).predict_output(problem()[1]), again.predict_output(problem()[1]))


def test_saved_networks_are_read_back_without_pickle(tmp_path):
    from safetensors.torch import load_file

    trainer = make().fit(*problem())
    trainer.save(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    tensors = load_file(file)
    assert torch.equal(tensors["f.0.weight"], trainer.f_[0].weight)
    X_target = problem()[1]
    again = make().load(tmp_path)
    assert torch.equal(again.predict(X_target), trainer.predict(X_target))
    assert torch.equal(again.predict_weights(X_target), trainer.predict_weights(X_target))
    assert again.history_ == trainer.history_


def test_a_model_and_a_checkpoint_are_not_mistaken_for_each_other(tmp_path):
    trainer = make(checkpoint=tmp_path / "checkpoint").fit(*problem())
    trainer.save(tmp_path / "model")
    with pytest.raises(ResumeMismatchError, match="holds a model, not a checkpoint"):
        make(checkpoint=tmp_path / "model").fit(*problem())
    with pytest.raises(ResumeMismatchError, match="holds a checkpoint, not a model"):
        make().load(tmp_path / "checkpoint")
    with pytest.raises(FileExistsError, match="holds a checkpoint; choose another folder"):
        trainer.save(tmp_path / "checkpoint")
    with pytest.raises(FileNotFoundError, match="no saved model"):
        make().load(tmp_path / "nothing")
    other = make()
    other.f = nn.Linear(2, 2)
    with pytest.raises(ResumeMismatchError, match="f: "):
        other.load(tmp_path / "model")
