"""`covshift reproduce theory`: every simulation of the theory page, as resumable trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from covshift._checks import check_count
from covshift.experiments.progress import Progress
from covshift.experiments.rows import Row, RowWriter
from covshift.experiments.theory import _map, _rates, _theorem1, _violations
from covshift.experiments.theory._world import WORLDS

__all__ = ["TRIALS", "run_theory"]

TRIALS = 40
# What one draw of the map comes with: the full run has 2,000 draws of S, 105,000 pairs (f, g) of each kind of g.
VIOLATION_BLOCKS, VIOLATION_DRAWS = 4 / TRIALS, 500
THEOREM1_BLOCKS, THEOREM1_DRAWS = 7 / TRIALS, 1000
RATE_SEEDS, REMARK_SEEDS, SEEDS_AT_ONCE = 100 / TRIALS, 200 / TRIALS, 10
CODE = ("losses", "theory", "experiments/theory")


@dataclass(frozen=True)
class Task:
    """A function whose rows are the trials of one problem and these seeds."""

    problem: str
    seeds: tuple[int, ...]
    function: Callable[..., list[Row]]
    arguments: tuple[Any, ...]


def tasks(trials: int) -> list[Task]:
    """All work, the longest first."""
    out = [
        Task(_map.map_problem(profile, model, n), (seed,), _map.map_rows, (profile, model, n, seed))
        for n in reversed(_map.MAP_SIZES)
        for profile in _map.PROFILES
        for model in _map.MODELS
        for seed in range(trials)
    ]
    for name in WORLDS:
        out.append(Task(f"constants/{name}", (0,), _rates.constant_rows, (name, _rates.SIZES)))
        for seeds in _blocks(_at_least_one(trials * RATE_SEEDS)):
            out.append(Task(f"rates/{name}", seeds, _rates.rate_rows, (name, seeds, _rates.SIZES)))
        for seeds in _blocks(_at_least_one(trials * REMARK_SEEDS)):
            out.append(Task(f"remark/{name}", seeds, _rates.remark_rows, (name, seeds)))
    for seed in range(_at_least_one(trials * VIOLATION_BLOCKS)):
        out.append(Task(_violations.PROBLEM, (seed,), _violations.violation_rows, (seed, VIOLATION_DRAWS)))
    for case in _theorem1.CASES:
        for seed in range(_at_least_one(trials * THEOREM1_BLOCKS)):
            arguments = (case, seed, THEOREM1_DRAWS)
            out.append(Task(_theorem1.theorem1_problem(case), (seed,), _theorem1.theorem1_rows, arguments))
    return out


def _at_least_one(count: float) -> int:
    return max(1, round(count))


def _blocks(count: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, count, SEEDS_AT_ONCE):
        yield tuple(range(start, min(start + SEEDS_AT_ONCE, count)))


def trial_rows() -> dict[str, int]:
    """Rows of a complete trial of every problem."""
    out = {_violations.PROBLEM: _violations.ROWS}
    out |= {_theorem1.theorem1_problem(case): _theorem1.ROWS for case in _theorem1.CASES}
    for name in WORLDS:
        out[f"constants/{name}"] = len(_rates.SIZES) * len(_rates.CONSTANT_METRICS)
        out[f"rates/{name}"] = len(_rates.SIZES) * len(_rates.RATE_METRICS)
        out[f"remark/{name}"] = 2 * len(_rates.REMARK_METRICS)
    for profile in _map.PROFILES:
        for model in _map.MODELS:
            for n in _map.MAP_SIZES:
                out[_map.map_problem(profile, model, n)] = len(_map.METHODS) * len(_map.METRICS)
    return out


def _one_thread(task: Task) -> tuple[Task, list[Row]]:
    """One BLAS thread, so that the numbers do not depend on the number of jobs."""
    with threadpool_limits(limits=1):
        return task, task.function(*task.arguments)


def run_theory(folder: Path | str, *, trials: int = TRIALS, jobs: int = 1, mode: str = "new") -> list[Row]:
    """All trials that are not in `<folder>/rows.csv` yet; the sorted rows.

    Parameters
    ----------
    trials : draws of every cell of the map; the other simulations grow and shrink with it
    jobs : processes
    mode : "new" refuses existing rows, "resume" continues them, "overwrite" starts anew
    """
    trials, jobs = check_count("trials", trials), check_count("jobs", jobs)
    settings = {"experiment": "theory", "trials": trials}
    with RowWriter(folder, settings, trial_rows(), mode=mode, extra=("n",), code=CODE) as out:
        everything = tasks(trials)
        todo = [task for task in everything if _missing(task, out)]
        progress = Progress("theory", len(everything), len(everything) - len(todo))
        try:
            for task, rows in _results(todo, jobs):
                for seed in _missing(task, out):
                    out.add([row for row in rows if row.seed == seed])
                progress.step()
        finally:
            progress.close()
        return out.finish()


def _missing(task: Task, out: RowWriter) -> list[int]:
    return [seed for seed in task.seeds if (task.problem, str(seed)) not in out.done]


def _results(todo: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[Row]]]:
    if jobs == 1:
        yield from map(_one_thread, todo)
    else:
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_one_thread)(t) for t in todo)
