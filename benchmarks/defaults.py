"""Every default of the one-step estimators against its alternatives, one at a time, on fresh draws.

    python -m benchmarks.defaults [--trials N] [--datasets toy bike ...] [--out FOLDER] [--resume]
    python -m benchmarks.defaults --out FOLDER --report [--into docs/defaults.md]

A trial draws a problem once and gives the draw, and the estimator's seed (so centres and folds), to all variants.
No hyperparameter inside a fit sees a label of the target; the comparison of variants does, on evaluation rows, as any
comparison must. Seeds start at 20,000: no earlier study used these draws. Raw rows go to FOLDER/rows.csv and are
continued with --resume; FOLDER/defaults.csv has one line a (data set, variant): the ratio of mean errors to the
reference's, its standard error, p of the paired t-test, and the worst draw. Its settings are in FOLDER/settings.json.
"""

from __future__ import annotations

import argparse
import csv
import io
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

from benchmarks.pools import OpenedFit
from covshift import OneStep, OneStepClassifier, OneStepRegressor
from covshift.exceptions import AllWeightsZeroError
from covshift.experiments.contract import Draw
from covshift.experiments.grid import problem_function
from covshift.experiments.objective import METRIC_OF
from covshift.experiments.progress import Progress
from covshift.experiments.rows import Row, RowWriter, atomic_write, read_rows
from covshift.experiments.stats import paired_p
from covshift.experiments.tables import Cell, Table, put_tables_into

FIRST_SEED = 20_000
LEVEL = 0.05
FIXED_REGS_F = tuple(float(v) for v in np.logspace(-4, 1, 9))
AROUND = np.geomspace(0.25, 2.0, 4)
SCALES = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Problem:
    """A problem's file with its options, its number of trials, and whether it belongs to the larger draws."""

    file: str
    trials: int
    options: Mapping[str, Any] = field(default_factory=dict)
    large: bool = False


def _large(file: str, n: int, **options: Any) -> Problem:
    return Problem(file, 8, {"n_source": n, "n_target": 500, **options}, large=True)


PROBLEMS = {
    "toy": Problem("toy", 100),
    **{name: Problem(name, 50) for name in ("auto", "bike", "parkinsons", "wine")},
    **{name: Problem(name, 50) for name in ("australian", "breast", "diabetes")},
    "heart": Problem("heart", 50, {"n_target": 70}),
    "sonar": Problem("sonar", 50, {"n_source": 80, "n_target": 50}),
    "bike hourly, n = 500": _large("bike", 500, resolution="hour"),
    "bike hourly, n = 2000": _large("bike", 2000, resolution="hour"),
    "parkinsons, n = 500": _large("parkinsons", 500),
    "parkinsons, n = 1800": _large("parkinsons", 1800),  # all it has
    "wine, n = 500": _large("wine", 500),
    "wine, n = 2000": _large("wine", 2000),
}

# Changes of one parameter of the estimator. A value may be a function of the median bandwidth.
BOTH_KINDS: dict[str, dict[str, Any]] = {
    "standardize=False": {"standardize": False},
    "centers=target": {"centers": "target"},
    "centers=source": {"centers": "source"},
    "n_centers=100": {"n_centers": 100},
    "criterion=objective": {"criterion": "objective"},
    "bandwidth_f searched": {"bandwidth_f": lambda median: tuple(median * AROUND)},
    "bandwidth_g searched": {"bandwidth_g": lambda median: tuple(median * AROUND)},
    "max_iter=1": {"max_iter": 1},
    "max_iter=2": {"max_iter": 2},
    "max_iter=10": {"max_iter": 10},
    "reg_f=logspace(-4,1,9)": {"reg_f": FIXED_REGS_F},
    "start=zero": {"start": "zero"},
    "coupling=0": {"coupling": 0.0},
}
REGRESSION = BOTH_KINDS | {
    "loss_scale=mad": {"loss_scale": "mad"},
    "loss=tukey": {"loss": "tukey"},
    "loss=welsch": {"loss": "welsch"},
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
    **{f"variance_weight={v:g}": ((ONE,), {"variance_weight": v}) for v in (0.0, 0.5, 1.0)},
}
NOT_AT_LARGE_N = ("bandwidth_f searched", "bandwidth_g searched", "loss=tukey", "loss=welsch")


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


def predictions(draw: Draw, seed: int, large: bool) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """(name of a variant, what computes its predictions at the evaluation rows), the default first."""
    fitted: dict[str, Any] = {}

    def fit(name: str, options: Mapping[str, Any]) -> Any:
        median = fitted["default"].cv_results_["param_bandwidth_f"][0] if fitted else None
        numbers = {key: value(median) if callable(value) else value for key, value in options.items()}
        fitted[name] = estimator_of(draw.kind, seed, **numbers).fit(draw.X, draw.y, X_target=draw.X_target)
        return fitted[name]

    regression = draw.kind == "regression"
    changes = REGRESSION if regression else BOTH_KINDS
    scales = {f"loss scale {s:g}": scale_options(draw.kind, s) for s in SCALES}
    for name, options in ({"default": {}} | changes | scales).items():
        if not (large and name in NOT_AT_LARGE_N):
            yield name, lambda name=name, options=options: fit(name, options).predict(draw.X_eval)
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
        yield name, lambda rule=rule: judged(*rule)
    if large:
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


def reference_of(variant: str) -> str:
    """What a variant is compared with: the default, or the same learner whose g sees no loss."""
    return f"{variant.split(':')[0]}: coupling=0" if ":" in variant else "default"


def trial(name: str, seed: int) -> list[Row]:
    """All variants on one draw; the value is NaN where a variant, or all of them for want of a class, cannot be fitted."""
    problem = PROBLEMS[name]
    draw = problem_function(problem.file)(seed, **problem.options)
    metric, judge = METRIC_OF[draw.kind]
    one_class = draw.kind == "classification" and len(np.unique(draw.y)) < 2
    rows = []
    for variant, predict in predictions(draw, seed, problem.large):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said to users once a fit; here the numbers show it
            try:
                value = np.nan if one_class else judge(predict(), draw.y_eval)
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
    kind = "classification" if name in ("australian", "breast", "diabetes", "heart", "sonar") else "regression"
    nothing = np.zeros((2, 1))
    draw = Draw(kind, nothing, nothing[:, 0], nothing, nothing, nothing[:, 0])
    return [variant for variant, _ in predictions(draw, 0, PROBLEMS[name].large)]


@dataclass(frozen=True)
class Comparison:
    """One line of defaults.csv; `ratio` of mean errors, its `se` by linearisation, `worst` draw over the mean."""

    dataset: str
    variant: str
    reference: str
    ratio: float
    se: float
    p: float
    worst: float
    trials: int


COLUMNS = tuple(Comparison.__dataclass_fields__)


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """Every variant against its reference on the draws that both could fit."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        errors.setdefault((row.problem, row.method), {})[row.seed] = row.value
    out = []
    for name in PROBLEMS:
        for (dataset, variant), by_seed in errors.items():
            reference = reference_of(variant)
            if dataset != name or variant == reference:
                continue
            seeds = sorted(by_seed)
            a = np.array([by_seed[seed] for seed in seeds])
            b = np.array([errors[dataset, reference][seed] for seed in seeds])
            out.append(_comparison(dataset, variant, reference, a, b))
    return out


def _comparison(dataset: str, variant: str, reference: str, a: np.ndarray, b: np.ndarray) -> Comparison:
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    ratio = float(a.mean() / b.mean())
    se = float(np.std(a - ratio * b, ddof=1) / np.sqrt(len(a)) / b.mean()) if len(a) > 1 else np.nan
    return Comparison(dataset, variant, reference, ratio, se, paired_p(a, b), float(a.max() / b.mean()), len(a))


def write_csv(path: Path, lines: Sequence[Comparison]) -> None:
    """defaults.csv, four digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in lines:
        numbers = [f"{v:.4g}" for v in (one.ratio, one.se, one.p, one.worst)]
        writer.writerow([one.dataset, one.variant, one.reference, *numbers, one.trials])
    atomic_write(path, out.getvalue())


def read_csv(path: Path) -> list[Comparison]:
    """The lines of a defaults.csv."""
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Comparison(
                r["dataset"], r["variant"], r["reference"], float(r["ratio"]), float(r["se"]), float(r["p"]),
                float(r["worst"]), int(r["trials"]),
            )
            for r in csv.DictReader(file)
        ]  # fmt: skip


GROUPS = {
    "regression": ("toy", "auto", "bike", "parkinsons", "wine"),
    "classification": ("australian", "breast", "diabetes", "heart", "sonar"),
    "large": tuple(name for name, problem in PROBLEMS.items() if problem.large),
}


def tables(lines: Sequence[Comparison]) -> list[Table]:
    """A table a group of data sets: variants down, data sets across, bold where p < .05; the mean of logs last."""
    return [_table(group, names, [one for one in lines if one.dataset in names]) for group, names in GROUPS.items()]


def _table(group: str, names: Sequence[str], lines: Sequence[Comparison]) -> Table:
    cells = {(one.variant, one.dataset): one for one in lines}
    names = [name for name in names if any(one.dataset == name for one in lines)]
    body = []
    for variant in dict.fromkeys(one.variant for one in lines):
        found = [cells.get((variant, name)) for name in names]
        shown = [Cell("") if one is None else Cell(f"{one.ratio:.3f}", one.p < LEVEL) for one in found]
        ratios = [one.ratio for one in found if one is not None]
        wins = sum(one is not None and one.p < LEVEL and one.ratio < 1 for one in found)
        losses = sum(one is not None and one.p < LEVEL and one.ratio > 1 for one in found)
        total = [f"{np.exp(np.mean(np.log(ratios))):.3f}", f"{wins}:{losses}"]
        body.append([variant.replace("=inf (no weights)", "=inf"), *shown, *total])
    trials = ", ".join(f"{name} {max(one.trials for one in lines if one.dataset == name)}" for name in names)
    notes = (
        "Mean error over the default's (over `coupling=0` of the same learner where a learner is named); "
        "bold: paired t-test, p < .05, not corrected.",
        f"Last columns: geometric mean, significantly better : worse. Draws: {trials}.",
    )
    header = ["variant", *names, "all", "+:-"]
    return Table(f"defaults/{group}", f"One change at a time: {group}", header, body, notes)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, help="draws of each data set (toy 100, nine sets 50, larger draws 8)")
    parser.add_argument("--datasets", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("covshift-results/defaults"), help="folder of the rows")
    parser.add_argument("--resume", action="store_true", help="continue the rows that are there")
    parser.add_argument("--report", action="store_true", help="only tables, from the rows that are there")
    parser.add_argument("--into", type=Path, help="a page whose tables are filled anew")
    given = parser.parse_args(arguments)
    if given.trials is not None and given.trials < 2:
        parser.error(f"--trials {given.trials}: a comparison needs at least 2 draws")
    if not given.report:
        run(given.datasets, given.trials, given.out, "resume" if given.resume else "new")
    lines = compare(read_rows(given.out))
    write_csv(given.out / "defaults.csv", lines)
    for table in tables(lines):
        print(table.terminal(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ), end="\n\n")
    if given.into:
        text, _ = put_tables_into(given.into, tables(lines))
        atomic_write(given.into, text)


if __name__ == "__main__":
    main()
