"""The batched image experiment is `OneStepTrainer`, run by run; rows, resuming and refusals."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from covshift.exceptions import ResumeMismatchError
from covshift.experiments.images import checkpoint as checkpoint_module
from covshift.experiments.images import run as run_module
from covshift.experiments.images.checkpoint import load_checkpoint, save_checkpoint
from covshift.experiments.images.engine import Engine, Group, Schedule
from covshift.experiments.images.methods import METHODS, method_named
from covshift.experiments.images.problem import Images, beta_angles, importance, turned
from covshift.experiments.rows import RowWriter, read_rows
from covshift.nn import Fresh, OneStepTrainer, Pretraining
from covshift.nn.networks import make_network

SCHEDULE = Schedule(rounds=2, epochs_g=1, epochs_f=1, pretrain_epochs=2, batch_size=32)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def double():
    """Both paths in double precision: in single, Adam turns the last bits of tiny gradients into visible steps."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def images(n=70, dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    X, X_test = (torch.rand(size, 28, 28, generator=draw, dtype=dtype) for size in (n, 20))
    y, y_test = (torch.randint(0, 10, (size,), generator=draw) for size in (n, 20))
    return Images(X, y, X_test, y_test)


@pytest.mark.parametrize("renew", [0, 1])
def test_the_batched_run_is_the_trainer_run_by_run(double, renew):
    a, b, seed = 2, 4, 3
    data = images(120, dtype=torch.float64)
    names = ["ERM", "EIWERM", "RIWERM", "one-step", "control: one-step as printed"]
    methods = [*map(method_named, names), method_named("control: classifier p/(1-p), square root")]
    methods.append(replace(METHODS[3], name="afresh", output_g="exp", start_g="afresh", loss_bound=0.5))
    if renew:
        one_step = method_named("one-step")
        methods = [
            one_step,
            replace(one_step, name="quick", rate_g=1e-2),
            method_named("control: classifier p/(1-p)"),
        ]
        methods = [replace(method, renew=renew) for method in methods]
    engine = Engine(data, [Group(2, 6, 9), Group(a, b, seed)], methods, SCHEDULE, torch.device("cpu"))
    engine.run_round()
    engine.run_round()
    for j, method in enumerate(methods):
        source = Fresh(lambda gen: (turned(data.X, a, b, gen)[0][:, None], data.y))
        target = Fresh(lambda gen: turned(data.X, b, a, gen)[0][:, None])
        trainer = OneStepTrainer(
            make_network((1, 28, 28), 10, seed, 0), make_network((1, 28, 28), 1, seed, 1), weights=method.weights,
            flattening=method.flattening, relative_alpha=method.relative_alpha, loss_bound=method.loss_bound,
            output_g=method.output_g, bound_alpha=method.bound_alpha, start_g=method.start_g, rounds=2, epochs_g=1,
            epochs_f=1, batch_size=32, pretrain_g=Pretraining(2, renew=renew), freeze_g=1, device="cpu",
            optimizer_g=lambda p, rate=method.rate_g: torch.optim.SGD(p, lr=rate), random_state=seed,
        ).fit(source, target)  # fmt: skip
        r = len(methods) + j
        assert trainer.history_[-1]["loss"] == pytest.approx(float(engine.mean_loss[r]), abs=1e-4), method.name
        for stacked, parameter in zip(engine.f, trainer.f_.parameters(), strict=True):
            torch.testing.assert_close(stacked[r], parameter, rtol=0, atol=1e-6)


def test_angles_have_the_law_they_say_and_the_importance_is_its_ratio():
    from scipy import stats

    t = beta_angles(2, 5, 20_000, torch.Generator().manual_seed(0)).double().numpy()
    assert stats.kstest(t, stats.beta(2, 5).cdf).pvalue > 1e-3
    grid = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
    expected = stats.beta(5, 2).pdf(grid) / stats.beta(2, 5).pdf(grid)
    np.testing.assert_allclose(importance(grid, 2, 5), expected)


def test_a_checkpoint_is_the_state_and_keeps_its_facts(tmp_path):
    engine = Engine(images(), [Group(2, 4, 0)], [METHODS[0], METHODS[3]], SCHEDULE, torch.device("cpu"))
    before = [tensor.clone() for tensor in engine.state()]
    save_checkpoint(tmp_path, engine.state(), {"methods": ["a"], "round": 3})
    for tensor in engine.state():
        tensor.detach().zero_()
    assert load_checkpoint(tmp_path, engine.state())["methods"] == ["a"]
    assert all(torch.equal(old, new) for old, new in zip(before, engine.state(), strict=True))


class Killed(BaseException):
    """What a test ends a run with at a chosen instant."""


def kill_at(monkeypatch, owner, name, call):
    """Let `owner.name` end the process in place of its call with this number, counted from 0."""
    original, calls = getattr(owner, name), iter(range(10**6))

    def one(*args, **kwargs):
        if next(calls) == call:
            raise Killed
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, one)


@pytest.mark.parametrize("call", range(4))
@pytest.mark.parametrize("instant", [(np, "save"), (os, "fsync"), (os, "replace"), (Path, "unlink")])
def test_a_kill_while_a_checkpoint_is_written_leaves_the_state_before_or_the_new_one(
    tmp_path, monkeypatch, instant, call
):
    monkeypatch.setattr(checkpoint_module, "_PART", 3)
    save_checkpoint(tmp_path, [torch.full((8,), 5.0)], {"round": 5})
    state = torch.zeros(8)
    with monkeypatch.context() as patch:
        kill_at(patch, *instant, call)
        try:
            save_checkpoint(tmp_path, [torch.full((8,), 10.0)], {"round": 10})
        except Killed:
            pass
    number = load_checkpoint(tmp_path, [state])["round"]
    assert number in (5, 10)
    assert state.tolist() == [number] * 8


def test_a_checkpoint_is_on_the_disk_before_the_one_before_it_goes(tmp_path, monkeypatch):
    on_disk = set()
    monkeypatch.setattr(os, "fsync", lambda file: on_disk.add(os.fstat(file).st_ino))
    save_checkpoint(tmp_path, [torch.ones(8)], {"round": 5})
    assert {file.stat().st_ino for file in tmp_path.iterdir()} == on_disk


@pytest.fixture
def small(tmp_path, monkeypatch):
    """`run_images` on a handful of images in `tmp_path / name`; six rounds, so that round 5 leaves a checkpoint."""
    schedule = replace(SCHEDULE, rounds=6, pretrain_epochs=1)
    monkeypatch.setattr(run_module, "load_images", lambda name, scale: images(40))
    monkeypatch.setattr(run_module, "scaled_schedule", lambda scale, angles: replace(schedule, angles=angles))
    common = {"datasets": ["fashion-mnist"], "levels": [(2, 6)], "methods": ["ERM", "one-step"], "trials": 1}
    common |= {"device": "cpu", "scale": 0.1, "say": lambda line: None}
    return lambda name, **given: run_module.run_images(out=tmp_path / name, **{**common, **given})


def kill(monkeypatch, owner, name, call, run):
    with monkeypatch.context() as patch:
        kill_at(patch, owner, name, call)
        with pytest.raises(Killed):
            run()


def figures(folder):
    """All of the rows but the seconds."""
    return [(r.problem, r.seed, r.method, r.metric, r.value, r.extra) for r in read_rows(folder / "images")]


def test_rows_are_written_and_a_stopped_run_goes_on_to_the_same_figures(tmp_path, small):
    assert small("a")
    assert not small("b", time_limit=0.0)
    assert small("b", mode="resume")
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    assert [row[2] for row in figures(tmp_path / "a")] == ["ERM", "one-step"]
    with pytest.raises(FileExistsError, match="--resume"):
        small("a")


@pytest.mark.parametrize("rounds", [5, 6])
@pytest.mark.parametrize("angles", ["fresh", "fixed"])
def test_a_run_killed_before_its_rows_goes_on_to_the_same_figures(tmp_path, monkeypatch, small, rounds, angles):
    monkeypatch.setattr(run_module, "scaled_schedule", lambda *_: replace(SCHEDULE, rounds=rounds, angles=angles))
    small("a", angles=angles)
    kill(monkeypatch, Engine, "accuracy", 0, lambda: small("b", angles=angles))
    small("b", mode="resume", angles=angles)
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    assert float(figures(tmp_path / "b")[1][-1]["ess"]) < 100.0


@pytest.mark.parametrize("rows", [1, 5])  # of the four of renew = 0, and of the two that come after them
def test_a_run_killed_between_its_rows_goes_on_with_the_missing_ones(tmp_path, monkeypatch, small, rows):
    names = {"methods": ["ERM", "one-step", "control: one-step, later choice of g"], "levels": [(2, 6), (2, 4)]}
    small("a", **names)
    kill(monkeypatch, RowWriter, "add", rows, lambda: small("b", **names))
    small("b", mode="resume", **names)
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    assert not list((tmp_path / "b" / "images").glob("checkpoint*"))


def test_a_checkpoint_whose_rows_are_all_there_is_forgotten(tmp_path, monkeypatch, small):
    small("a")
    kill(monkeypatch, run_module, "remove_checkpoint", 0, lambda: small("b"))
    trained = []
    monkeypatch.setattr(Engine, "run_round", lambda engine: trained.append(engine))
    small("b", mode="resume")
    assert not trained
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    assert not list((tmp_path / "b" / "images").glob("checkpoint*"))


@pytest.mark.parametrize("more", [{"trials": 2}, {"datasets": ["kuzushiji-mnist", "fashion-mnist"]}])
def test_more_may_be_asked_for_while_a_checkpoint_is_there(tmp_path, monkeypatch, small, more):
    small("a")
    small("a", mode="resume", **more)
    kill(monkeypatch, Engine, "accuracy", 0, lambda: small("b"))
    said = []
    small("b", mode="resume", say=said.append, **more)
    assert said[0].startswith("fashion-mnist: 2 runs (1 of level and trial, 2 methods)")
    assert said[1].startswith("  round 6/6")
    assert figures(tmp_path / "a") == figures(tmp_path / "b")


@pytest.mark.parametrize(
    "other",
    [
        {"methods": ["ERM"]}, {"datasets": ["kuzushiji-mnist"]}, {"levels": [(2, 4)]}, {"angles": "fixed"},
    ],
)  # fmt: skip
def test_a_checkpoint_of_what_is_not_asked_for_is_refused(tmp_path, monkeypatch, small, other):
    kill(monkeypatch, Engine, "accuracy", 0, lambda: small("b"))
    with pytest.raises(ResumeMismatchError, match=r"\(2, 6\), seed 0, which is not asked for.*--overwrite"):
        small("b", mode="resume", **other)
    small("b", mode="resume")


def test_a_checkpoint_with_other_settings_is_refused_though_its_rows_are_gone(tmp_path, monkeypatch, small):
    kill(monkeypatch, Engine, "accuracy", 0, lambda: small("b"))
    (tmp_path / "b" / "images" / "rows.csv").unlink()
    with pytest.raises(ResumeMismatchError, match=r"other settings.*--overwrite"):
        small("b", mode="resume", scale=0.2)


def test_the_seconds_count_the_time_before_a_resume(tmp_path, monkeypatch, small):
    clock = [0.0]
    round_of_engine = Engine.run_round

    def run_round(engine):
        clock[0] += 100.0
        round_of_engine(engine)

    monkeypatch.setattr(run_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(Engine, "run_round", run_round)
    small("b", time_limit=0.0)
    while not small("b", mode="resume", time_limit=150.0):
        pass
    assert [row.seconds for row in read_rows(tmp_path / "b" / "images")] == [300.0, 300.0]


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'one-step'"):
        run_module.run_images(methods=["onestep"], out=tmp_path)
    with pytest.raises(ValueError, match="fashion-mnist"):
        run_module.run_images(datasets=["mnist"], out=tmp_path)
    with pytest.raises(ValueError, match="trials=0"):
        run_module.run_images(trials=0, out=tmp_path)


@pytest.mark.parametrize("mode", ["new", "resume", "overwrite"])
def test_rows_of_a_share_never_go_where_the_full_ones_are(tmp_path, mode):
    full = tmp_path / "results" / "images"
    full.mkdir(parents=True)
    (full / "rows.csv").write_text("kept")
    with pytest.raises(ValueError, match=r"scale=0.02 is not for .*choose another out"):
        run_module.run_images(out=tmp_path / "results", scale=0.02, mode=mode)
    assert (full / "rows.csv").read_text() == "kept"
