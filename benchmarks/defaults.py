"""Every default of the one-step estimators against its alternatives, one at a time, on fresh draws.

    python -m benchmarks.defaults [--trials N] [--datasets toy bike ...] [--out FOLDER] [--resume]
    python -m benchmarks.defaults --report results/defaults.csv [--into docs/defaults.md]

A trial draws a problem once and gives the draw, and the estimator's seed (so centres and folds), to all variants.
No hyperparameter inside a fit sees a label of the target; the comparison of variants does, on evaluation rows, as any
comparison must. Seeds start at 20,000: no earlier study used these draws. Raw rows go to FOLDER/rows.csv and are
continued with --resume; FOLDER/defaults.csv has one line a (data set, variant): the ratio of mean errors to the
reference's, its standard error, p of the paired t-test, and the worst draw. Its settings are in FOLDER/settings.json.
The data are found as `covshift reproduce` finds them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.comparisons import compare, read_csv, tables, write_csv
from benchmarks.pools import OpenedFit
from covshift import OneStep, OneStepClassifier, OneStepRegressor
from covshift.datasets import load_panel_tasks
from covshift.exceptions import AllWeightsZeroError
from covshift.experiments.contract import Draw
from covshift.experiments.grid import problem_function
from covshift.experiments.objective import METRIC_OF
from covshift.experiments.progress import Progress
from covshift.experiments.rows import Row, RowWriter, atomic_write, read_rows
from covshift.experiments.tables import put_tables_into

FIRST_SEED = 20_000
FIXED_REGS_F = tuple(float(v) for v in np.logspace(-4, 1, 9))
SCALES = (0.25, 0.5, 2.0)


@dataclass(frozen=True)
class Problem:
    """A problem's file with its options, the table that it stands in, and its number of trials."""

    file: str
    group: str
    trials: int
    options: Mapping[str, Any] = field(default_factory=dict)


def _large(file: str, n: int, **options: Any) -> Problem:
    return Problem(file, "large", 2, {"n_source": n, "n_target": 500, **options})


PROBLEMS = {
    "toy": Problem("toy", "regression", 100),
    **{name: Problem(name, "regression", 50) for name in ("auto", "bike", "parkinsons", "wine")},
    **{name: Problem(name, "classification", 50) for name in ("australian", "breast", "diabetes")},
    "heart": Problem("heart", "classification", 50, {"n_target": 70}),
    "sonar": Problem("sonar", "classification", 50, {"n_source": 80, "n_target": 50}),
    "bike hourly, n = 500": _large("bike", 500, resolution="hour"),
    "bike hourly, n = 2000": _large("bike", 2000, resolution="hour"),
    "parkinsons, n = 500": _large("parkinsons", 500),
    "parkinsons, n = 1800": _large("parkinsons", 1800),  # all it has
    "wine, n = 500": _large("wine", 500),
    "wine, n = 2000": _large("wine", 2000),
    # The odd rows of the panel's table are for choosing, the even ones for confirmation.
    **{t.name: Problem("panel", "panel", 2, {"name": t.name}) for t in load_panel_tasks() if t.row % 2},
}

# Changes of one parameter of the estimator. A value may be a function of the median bandwidth.
BOTH_KINDS: dict[str, dict[str, Any]] = {
    "standardize=False": {"standardize": False},
    "centers=target": {"centers": "target"},
    "centers=source": {"centers": "source"},
    "n_centers=100": {"n_centers": 100},
    "criterion=objective": {"criterion": "objective"},
    "bandwidth_f x 1/4, 1/2, 1, 2, 4": {"bandwidth_f": lambda median: tuple(median * np.geomspace(0.25, 4.0, 5))},
    "bandwidth_g x 1/4, 1/2, 1, 2": {"bandwidth_g": lambda median: tuple(median * np.geomspace(0.25, 2.0, 4))},
    "max_iter=1": {"max_iter": 1},
    "max_iter=2": {"max_iter": 2},
    "max_iter=10": {"max_iter": 10},
    "reg_f=logspace(-4,1,9)": {"reg_f": FIXED_REGS_F},
    "reg_g=logspace(-3,2,9)": {"reg_g": tuple(float(v) for v in np.logspace(-3, 2, 9))},
    "start=zero": {"start": "zero"},
    "coupling=0": {"coupling": 0.0},
}
REGRESSION = BOTH_KINDS | {
    "bandwidth_f=median": {"bandwidth_f": "median"},
    "loss_scale=mad": {"loss_scale": "mad"},
    "loss=tukey": {"loss": "tukey"},
    "loss=welsch": {"loss": "welsch"},
}
CLASSIFICATION = BOTH_KINDS | {
    "bandwidth_f=auto": {"bandwidth_f": "auto"},
    "reg_f=logspace(-6,1,11)": {"reg_f": tuple(float(v) for v in np.logspace(-6, 1, 11))},
}
# Changes of how candidates are judged and mixed: (kinds of candidates, changes of the scoring; None: stacked).
ONE, ZERO, UNWEIGHTED = "one", "zero", "unweighted"
JUDGED: dict[str, tuple[tuple[str, ...], dict[str, Any] | None]] = {
    "shrink=zero": ((ZERO,), {}),
    "reg_g with inf": ((ONE, UNWEIGHTED), {}),
    "reg_g=inf (no weights)": ((UNWEIGHTED,), {}),
    "pool of both families": ((ONE, ZERO), {}),
    "stacking, with the unweighted": ((ONE, UNWEIGHTED), None),
    "stacking, both families": ((ONE, ZERO, UNWEIGHTED), None),
}
JUDGED_REGRESSION = JUDGED | {
    "selection=best": ((ONE,), {"selection": "best"}),
    **{f"variance_weight={v:g}": ((ONE,), {"variance_weight": v}) for v in (0.0, 0.25, 0.5, 2.0)},
    **{f"sharpness=1/{k}": ((ONE,), {"sharpness": 1 / k}) for k in (2, 8, 128)},
}
JUDGED_CLASSIFICATION = JUDGED | {
    "selection=average": ((ONE,), {"selection": "average"}),
    **{f"average, sharpness=1/{k}": ((ONE,), {"selection": "average", "sharpness": 1 / k}) for k in (8, 32, 128)},
    **{f"variance_weight={v:g}": ((ONE,), {"variance_weight": v}) for v in (0.25, 0.5, 1.0)},
}
# What costs many fits is measured on the first draws only.
SLOW = (
    "bandwidth_f x 1/4, 1/2, 1, 2, 4",
    "bandwidth_g x 1/4, 1/2, 1, 2",
    "n_centers=100",
    "loss=tukey",
    "loss=welsch",
)
SLOW_TRIALS = 10
ON_LARGE_DRAWS = (
    "default", "coupling=0", "loss scale 0.25", "loss scale 0.5", "reg_f=logspace(-4,1,9)", "bandwidth_f=median",
    *JUDGED,
)  # fmt: skip
ON_THE_PANEL = ("default", "coupling=0", "loss scale 0.25", "loss scale 0.5", "centers=source")
ONLY = {"large": ON_LARGE_DRAWS, "panel": ON_THE_PANEL}


def _learners(d: int, seed: int) -> dict[str, Any]:
    """Two learners f for out-of-fold losses: about the kernel model, and one that can fit its own rows closely."""
    features = Nystroem(gamma=1.0 / (4 * d), n_components=50, random_state=seed)
    kernel = make_pipeline(StandardScaler(), features, RidgeCV(alphas=np.logspace(-4, 1, 6)))
    boosting = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=15, early_stopping=False, random_state=seed)
    return {"kernel ridge": kernel, "boosting": boosting}


def estimator_of(kind: str, seed: int, **options: Any) -> OneStepRegressor | OneStepClassifier:
    """The default estimator of a kind of problem, with changes."""
    return (OneStepRegressor if kind == "regression" else OneStepClassifier)(random_state=seed, **options)


def scale_options(kind: str, scale: float) -> dict[str, float]:
    """The loss (r/s)^2 in g's step: by `loss_scale`, or by coupling s^-4 where the labels have no scale."""
    return {"loss_scale": scale} if kind == "regression" else {"coupling": scale**-4}


def predictions(draw: Draw, seed: int, group: str) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """(name of a variant, what computes its predictions at the evaluation rows), the default first."""
    fitted: dict[str, Any] = {}

    def fit(name: str, options: Mapping[str, Any]) -> Any:
        median = fitted["default"].cv_results_["param_bandwidth_f"][0] if fitted else None
        numbers = {key: value(median) if callable(value) else value for key, value in options.items()}
        fitted[name] = estimator_of(draw.kind, seed, **numbers).fit(draw.X, draw.y, X_target=draw.X_target)
        return fitted[name]

    regression = draw.kind == "regression"
    changes = REGRESSION if regression else CLASSIFICATION
    scales = {f"loss scale {s:g}": scale_options(draw.kind, s) for s in SCALES}
    for name, options in ({"default": {}} | changes | scales).items():
        if name in ONLY.get(group, (name,)):
            yield name, lambda name=name, options=options: fit(name, options).predict(draw.X_eval)
    if group == "panel":
        return
    if group != "large":
        by_score = ["default", *scales]
        yield (
            "loss scale by the corrected score",
            lambda: min((fitted[k] for k in by_score), key=_lowest_score).predict(draw.X_eval),
        )
    opened: list[OpenedFit] = []

    def judged(kinds: tuple[str, ...], scoring: dict[str, Any] | None) -> np.ndarray:
        if not opened:
            opened.append(OpenedFit(draw, seed))
        pool = opened[0].pool
        q = pool.stacked(kinds) if scoring is None else pool.mixture(kinds, scoring)
        return opened[0].predict(q)

    for name, rule in (JUDGED_REGRESSION if regression else JUDGED_CLASSIFICATION).items():
        if name in ONLY.get(group, (name,)):
            yield name, lambda rule=rule: judged(*rule)
    if group == "large":
        yield from _out_of_fold(draw, seed)


LOSSES_FOR_G = {
    "coupling=0": {"coupling": 0.0},
    "out-of-fold losses": {"coupling": 1.0},
    "out-of-fold losses, coupling=16": {"coupling": 16.0},
    "in-sample losses": {"out_of_fold": False},
}


def _out_of_fold(draw: Draw, seed: int) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Any learner as f with what g is shown: nothing, out-of-fold losses, losses of a fit on its own rows."""
    for name, learner in _learners(draw.X.shape[1], seed).items():
        for what, options in LOSSES_FOR_G.items():
            model = OneStep(learner, random_state=seed, reg_g=(0.01, 0.1, 1.0), **options)
            yield (
                f"{name}: {what}",
                lambda model=model: model.fit(draw.X, draw.y, X_target=draw.X_target).predict(draw.X_eval),
            )


def _lowest_score(model: Any) -> float:
    return float(np.min(model.cv_results_["score"]))


def trial(name: str, seed: int) -> list[Row]:
    """All variants on one draw; NaN where a variant was not or cannot be fitted (one class only: all of them)."""
    problem = PROBLEMS[name]
    draw = problem_function(problem.file)(seed, **problem.options)
    metric, judge = METRIC_OF[draw.kind]
    one_class = draw.kind == "classification" and len(np.unique(draw.y)) < 2
    late = problem.group in ("regression", "classification") and seed >= FIRST_SEED + SLOW_TRIALS
    rows = []
    for variant, predict in predictions(draw, seed, problem.group):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said to users once a fit; here the numbers show it
            try:
                value = np.nan if one_class or late and variant in SLOW else judge(predict(), draw.y_eval)
            except (AllWeightsZeroError, np.linalg.LinAlgError):
                value = np.nan
        rows.append(Row(name, variant, seed, metric, value, time.perf_counter() - start))
    return rows


def run(names: Sequence[str], trials: int | None, folder: Path, mode: str) -> None:
    """All trials that are not there yet, seeds in the outer loop so that data sets grow evenly."""
    counts = {name: PROBLEMS[name].trials if trials is None else trials for name in names}
    todo = [(name, FIRST_SEED + i) for i in range(max(counts.values())) for name in names if i < counts[name]]
    settings = {"experiment": "defaults", "first_seed": FIRST_SEED, "trials": max(counts.values())}
    width = {name: len(_variants(name)) for name in PROBLEMS}
    with RowWriter(folder, settings, width, mode=mode) as out, threadpool_limits(limits=1):
        missing = [key for key in todo if (key[0], str(key[1])) not in out.done]
        progress = Progress("defaults", len(todo), len(todo) - len(missing))
        for name, seed in missing:
            out.add(trial(name, seed))
            progress.step()
        progress.close()
        out.finish()


def _variants(name: str) -> list[str]:
    kind = "classification" if PROBLEMS[name].group == "classification" else "regression"
    nothing = np.zeros((2, 1))
    draw = Draw(kind, nothing, nothing[:, 0], nothing, nothing, nothing[:, 0])
    return [variant for variant, _ in predictions(draw, 0, PROBLEMS[name].group)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, help="draws of each data set (toy 100, nine sets 50, large 2, panel 2)")
    parser.add_argument("--datasets", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("covshift-results/defaults"), help="folder of the rows")
    parser.add_argument("--resume", action="store_true", help="continue the rows that are there")
    parser.add_argument("--report", type=Path, metavar="CSV", help="only the tables, from a defaults.csv")
    parser.add_argument("--into", type=Path, help="a page whose tables are filled anew")
    given = parser.parse_args(arguments)
    if given.trials is not None and given.trials < 2:
        parser.error(f"--trials {given.trials}: a comparison needs at least 2 draws")
    if given.report:
        lines = read_csv(given.report)
    else:
        run(given.datasets, given.trials, given.out, "resume" if given.resume else "new")
        lines = compare(read_rows(given.out), list(PROBLEMS))
        write_csv(given.out / "defaults.csv", lines)
    groups = {name: problem.group for name, problem in PROBLEMS.items()}
    shown = tables(lines, groups, given.report.stem if given.report else "defaults")
    for table in shown:
        print(table.terminal(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ), end="\n\n")
    if given.into:
        text, _ = put_tables_into(given.into, shown)
        atomic_write(given.into, text)


if __name__ == "__main__":
    main()
