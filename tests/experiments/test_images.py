"""The batched image experiment is `OneStepTrainer`, run by run; rows, resuming and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from covshift.exceptions import ResumeMismatchError
from covshift.experiments.images import run as run_module
from covshift.experiments.images.checkpoint import load_checkpoint, save_checkpoint
from covshift.experiments.images.engine import Engine, Group, Schedule
from covshift.experiments.images.methods import METHODS, method_named
from covshift.experiments.images.problem import Images, beta_angles, importance, turned
from covshift.experiments.rows import read_rows
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


def test_a_checkpoint_is_the_state_and_another_runs_is_refused(tmp_path):
    engine = Engine(images(), [Group(2, 4, 0)], [METHODS[0], METHODS[3]], SCHEDULE, torch.device("cpu"))
    before = [tensor.clone() for tensor in engine.state()]
    save_checkpoint(tmp_path, engine.state(), {"methods": ["a"], "round": 3})
    for tensor in engine.state():
        tensor.detach().zero_()
    assert load_checkpoint(tmp_path, engine.state(), {"methods": ["a"]}) == 3
    assert all(torch.equal(old, new) for old, new in zip(before, engine.state(), strict=True))
    with pytest.raises(ResumeMismatchError, match="methods"):
        load_checkpoint(tmp_path, engine.state(), {"methods": ["b"]})


def test_rows_are_written_and_a_stopped_run_goes_on_to_the_same_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "load_images", lambda name, scale: images())
    monkeypatch.setattr(run_module, "scaled_schedule", lambda scale, angles: replace(SCHEDULE, angles=angles))
    common = {"datasets": ["fashion-mnist"], "levels": [(2, 6)], "methods": ["ERM", "one-step"], "trials": 1}
    common |= {"device": "cpu", "scale": 0.1, "say": lambda line: None}
    assert run_module.run_images(out=tmp_path / "a", **common)
    assert not run_module.run_images(out=tmp_path / "b", time_limit=0.0, **common)
    assert run_module.run_images(out=tmp_path / "b", mode="resume", **common)
    one, two = (read_rows(tmp_path / name / "images") for name in "ab")
    assert [(r.problem, r.method, r.metric, r.value) for r in one] == [
        (r.problem, r.method, r.metric, r.value) for r in two
    ]
    assert [row.method for row in one] == ["ERM", "one-step"]
    with pytest.raises(FileExistsError, match="--resume"):
        run_module.run_images(out=tmp_path / "a", **common)


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
