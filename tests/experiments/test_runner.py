"""Runs: the same rows for any number of processes, after a kill and after Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from covshift.experiments import runner
from covshift.experiments.contract import Spec
from covshift.experiments.grid import Experiment
from covshift.experiments.progress import Progress
from covshift.experiments.rows import read_rows
from covshift.experiments.runner import run_experiment, run_trial

SMALL = {"n_source": 60, "n_target": 60, "n_eval": 50}
METHODS = (Spec("ERM", "erm", {"reg_f": [0.1, 1.0]}), Spec("default", "default"))


def experiment(trials):
    return Experiment("toy", METHODS, (Spec("toy", "toy", SMALL),), trials)


def without_seconds(rows):
    return [(row.problem, row.method, row.seed, row.metric, row.value) for row in rows]


def test_any_number_of_jobs_gives_the_same_rows_and_resume_adds_what_is_missing(tmp_path, capsys):
    with threadpool_limits(limits=1):
        expected = [row for seed in range(3) for row in run_trial(Spec("toy", "toy", SMALL), seed, METHODS)]
    first = run_experiment(experiment(1), tmp_path, jobs=1)
    assert without_seconds(first) == without_seconds(expected[:2])
    run_experiment(experiment(3), tmp_path, jobs=2, mode="resume")
    assert without_seconds(read_rows(tmp_path)) == without_seconds(expected)
    assert "toy: 3/3 trials" in capsys.readouterr().err


def test_trial_draws_once_and_judges_all_methods_on_it(monkeypatch):
    draws = []

    def draw(seed, **options):
        draws.append(seed)
        return runner_draw(seed, **options)

    runner_draw = runner.problem_function("toy")
    monkeypatch.setattr(runner, "problem_function", lambda file: draw)
    rows = run_trial(Spec("toy", "toy", SMALL), 3, METHODS)
    assert draws == [3]
    assert [(row.method, row.seed, row.metric) for row in rows] == [("ERM", 3, "mse"), ("default", 3, "mse")]
    assert all(row.value > 0 and row.seconds > 0 for row in rows)


def test_a_fit_without_weights_is_nan_not_the_end_of_the_run():
    starved = Spec("starved", "eiwerm", {"bandwidth_g": [1e-9], "reg_g": [1.0]})
    (row,) = run_trial(Spec("toy", "toy", SMALL), 0, [starved])
    assert np.isnan(row.value) and row.method == "starved"


def test_an_error_in_a_worker_says_which_trial(tmp_path):
    broken = Experiment("toy", (Spec("x", "erm", {"centers": "nowhere"}),), (Spec("toy", "toy", SMALL),), 1)
    with pytest.raises(ValueError) as caught:
        run_experiment(broken, tmp_path, jobs=1)
    assert caught.value.__notes__ == ["(in the trial toy, seed 0)"]


def _start(tmp_path, trials=400):
    code = f"""
from pathlib import Path
from tests.experiments.test_runner import experiment
from covshift.experiments.runner import run_experiment
if __name__ == "__main__":
    run_experiment(experiment({trials}), Path({str(tmp_path)!r}), jobs=1)
"""
    script = tmp_path / "run.py"
    script.write_text(code)
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    process = subprocess.Popen([sys.executable, script], env=environment, stderr=subprocess.PIPE, text=True)
    rows = tmp_path / "rows.csv"
    deadline = time.monotonic() + 60
    while not rows.exists() or rows.read_bytes().count(b"\n") < 6:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    return process


def _children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_kill_keeps_the_rows_and_leaves_no_process_behind(tmp_path):
    process = _start(tmp_path)
    children = _children(process.pid)
    process.kill()
    process.wait()
    kept = read_rows(tmp_path)
    assert len(kept) >= 4 and len(kept) % 2 == 0
    deadline = time.monotonic() + 10
    while any(_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children and not any(_alive(child) for child in children)


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere():
    terminal, lines = Terminal(), io.StringIO()
    for stream in (terminal, lines):
        progress = Progress("toy", 3, stream=stream)
        for _ in range(3):
            progress.step()
        progress.close()
    assert terminal.getvalue().count("\r[") == 4 and "3/3 trials" in terminal.getvalue()
    assert "left" in terminal.getvalue()
    assert "\r" not in lines.getvalue() and lines.getvalue().splitlines()[-1].startswith("toy: 3/3 trials")


def test_interrupts_reach_the_parent_again_after_the_workers_are_started():
    before = signal.getsignal(signal.SIGINT)
    with runner._interrupts_ignored():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is before
