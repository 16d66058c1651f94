"""Runs an experiment: every trial draws its data once and gives the same draw to all methods."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from covshift.exceptions import AllWeightsZeroError, ConvergenceWarning, OverlapWarning
from covshift.experiments.contract import Spec
from covshift.experiments.grid import Experiment, method_function, problem_function
from covshift.experiments.objective import METRIC_OF
from covshift.experiments.progress import Progress
from covshift.experiments.rows import Row, RowWriter

__all__ = ["run_experiment", "run_trial", "usable_cores"]


def run_trial(problem: Spec, seed: int, methods: Sequence[Spec]) -> list[Row]:
    """The rows of one (problem, seed): one draw, all methods on it, `seconds` is the time of `fit` alone.

    A method that cannot be fitted on this draw (no weight left, a singular system) has the value NaN.
    """
    draw = problem_function(problem.file)(seed, **problem.options)
    metric, judge = METRIC_OF[draw.kind]
    functions = [method_function(method.file) for method in methods]
    rows = []
    for method, fit in zip(methods, functions, strict=True):
        start = time.perf_counter()
        with warnings.catch_warnings():
            # Said to users once a fit; here 100 draws would say it 100 times, and the numbers show it.
            warnings.simplefilter("ignore", OverlapWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                fitted = fit(draw, seed, **method.options)
            except (AllWeightsZeroError, np.linalg.LinAlgError):
                fitted = None
        seconds = time.perf_counter() - start
        value = np.nan if fitted is None else judge(fitted.predict(draw.X_eval), draw.y_eval)
        rows.append(Row(problem.name, method.name, seed, metric, value, seconds, problem.columns))
    return rows


def run_experiment(
    experiment: Experiment, folder: Path | str, *, jobs: int | None = None, mode: str = "new", what: str | None = None
) -> list[Row]:
    """All trials that are not in `<folder>/rows.csv` yet, in `jobs` processes; the sorted rows.

    Every number is made in a child process with one BLAS thread, whatever `jobs` is, so the rows are the same for
    any number of jobs (the seconds apart).
    """
    columns = sorted({name for problem in experiment.problems for name in problem.columns})
    with RowWriter(folder, experiment.settings(), len(experiment.methods), mode=mode, extra=columns) as out:
        todo = [
            (problem, seed)
            for problem in experiment.problems
            for seed in range(experiment.trials)
            if (problem.name, str(seed)) not in out.done
        ]
        total = len(experiment.problems) * experiment.trials
        progress = Progress(what or experiment.name, total, total - len(todo))
        try:
            for rows in _in_processes(todo, experiment.methods, usable_cores() if jobs is None else jobs):
                out.add(rows)
                progress.step()
        finally:
            progress.close()
        return out.finish()


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_processes(todo: Sequence[tuple[Spec, int]], methods: Sequence[Spec], jobs: int) -> Iterator[list[Row]]:
    """Rows of the trials as they are finished."""
    if not todo:
        return
    with _pool(min(jobs, len(todo))) as pool:
        trials: dict[Future[list[Row]], str] = {}
        with _interrupts_ignored():
            for problem, seed in todo:
                trials[pool.submit(_one_thread, problem, seed, methods)] = f"{problem.name}, seed {seed}"
        for future in as_completed(trials):
            problem_of_trial = future.exception()
            if isinstance(problem_of_trial, BrokenProcessPool):
                raise MemoryError(
                    "a worker process was killed, most likely for want of memory; rows so far are kept: "
                    "continue with --resume and fewer --jobs"
                )
            if problem_of_trial is not None:
                problem_of_trial.add_note(f"(in the trial {trials[future]})")
                raise problem_of_trial
            yield future.result()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that end with this block, whatever ends it."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        # Ctrl-C or an error: trials in hand are given up, not waited for.
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started in this block are born deaf to Ctrl-C, which is the parent's to answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone, also by a kill that it cannot answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _one_thread(problem: Spec, seed: int, methods: Sequence[Spec]) -> list[Row]:
    with threadpool_limits(limits=1):
        return run_trial(problem, seed, methods)
