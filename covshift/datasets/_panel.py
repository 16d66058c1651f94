"""The panel: 41 tasks from real tables, with a natural shift, one of known ratio, none, or no overlap."""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from scipy.stats import rankdata
from sklearn.utils import Bunch

from covshift._checks import check_choice, check_count
from covshift.datasets._encode import require_pandas
from covshift.datasets._panel_tables import load_table, panel_folder

__all__ = ["PanelTask", "load_panel_tasks", "make_panel_task"]

SELECTION_STRENGTH = {"mild": 1.0, "strong": 2.5}
TRANSFORMS: dict[str, Callable[..., NDArray[np.float64]]] = {"": np.asarray, "log": np.log, "log1p": np.log1p}
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class PanelTask:
    """One row of `tasks.csv`, its lists split at the semicolons; `row` counts from one.

    Rules and defaults are chosen on tasks in odd rows and confirmed on those in even rows.
    """

    name: str
    table: str
    kind: str
    y: str
    positive: str
    transform: str
    where: str
    drop: tuple[str, ...]
    keep: tuple[str, ...]
    rule: str
    source: str
    target: str
    columns: tuple[str, ...]
    strength: str
    n_source: int
    n_target: int
    n_eval: int
    row: int


def load_panel_tasks() -> tuple[PanelTask, ...]:
    """The tasks in the order of `$COVSHIFT_PANEL`/tasks.csv, else of the copy that is shipped.

    Examples
    --------
    >>> tasks = load_panel_tasks()
    >>> tasks[0].name, tasks[0].rule
    ('auto_origin', 'natural')
    """
    folder = panel_folder()
    own = folder / "tasks.csv" if folder else None
    shipped = files("covshift.datasets").joinpath("panel_tasks.csv")
    text = own.read_text("utf-8") if own and own.is_file() else shipped.read_text("utf-8")
    return tuple(_task(row, number) for number, row in enumerate(csv.DictReader(text.splitlines()), start=1))


def _task(row: dict[str, str], number: int) -> PanelTask:
    cells: dict[str, Any] = {"name" if column == "task" else column: cell for column, cell in row.items()}
    for name in ("drop", "keep", "columns"):
        cells[name] = tuple(filter(None, cells[name].split(";")))
    for name in ("n_source", "n_target", "n_eval"):
        cells[name] = int(cells[name])
    return PanelTask(**cells, row=number)


def make_panel_task(name: str, seed: int = 0) -> Bunch:
    """Draw one task: labelled source rows, unlabelled target rows, target rows for evaluation.

    The generator is `default_rng([seed, crc32(name)])`; pools come first, then a permutation of the source pool,
    then one of the target pool. With s the score of a row (`_score`), the rules are

    * natural: the pools are the rows that fulfil two queries; the ratio is unknown;
    * select: P(target | x) = 1 / (1 + exp(-a s)), a = 1 (mild) or 2.5 (strong), so r(x) is exp(a s) up to a factor;
    * far: source rows below the 40 % quantile of s, target rows above the 60 % quantile: no overlap;
    * none: a random cut.

    At most half of the target pool becomes `X_target`; the rows for evaluation are others. No choice of method or
    hyperparameter may see `y_eval`.

    Parameters
    ----------
    name : str
        See `load_panel_tasks`.
    seed : int >= 0

    Returns
    -------
    Bunch
        X, X_target, X_eval: frames (numbers float64 with NaN, words as categories) whose index is the row of the
        table; y, y_eval: arrays (float, or codes 0..K-1); kind, rule, strength, name, seed; true_ratio: exp(a s)
        of the source rows for "select", otherwise None.
    """
    tasks = {task.name: task for task in load_panel_tasks()}
    task = tasks[check_choice("name", name, tasks)]
    seed = check_count("seed", seed, low=0)
    table = _prepare(task, os.environ.get("COVSHIFT_PANEL"), os.environ.get("COVSHIFT_DATA"))
    rng = np.random.default_rng([seed, zlib.crc32(task.name.encode())])
    source, target = _pools(task, table, rng)
    source, target = rng.permutation(source), rng.permutation(target)
    source = source[: task.n_source]
    n_target = min(task.n_target, len(target) // 2)
    target, evaluation = target[:n_target], target[n_target : n_target + task.n_eval]
    ratio = np.exp(SELECTION_STRENGTH[task.strength] * table.score[source]) if task.rule == "select" else None
    return Bunch(
        X=table.inputs.iloc[source],
        y=table.y[source],
        X_target=table.inputs.iloc[target],
        X_eval=table.inputs.iloc[evaluation],
        y_eval=table.y[evaluation],
        kind=task.kind,
        rule=task.rule,
        strength=task.strength,
        true_ratio=ratio,
        name=task.name,
        seed=seed,
    )


@dataclass(frozen=True)
class _Table:
    """What every seed of a task shares."""

    inputs: Any
    y: NDArray[Any]
    score: NDArray[np.float64]  # s, for "select" and "far"
    in_source: NDArray[np.bool_]  # for "natural"
    in_target: NDArray[np.bool_]


@lru_cache(maxsize=2)  # twenty seeds of a task read its table once; the folders are part of the key
def _prepare(task: PanelTask, panel: str | None, data: str | None) -> _Table:
    frame = load_table(task.table)
    rule_columns = [name.lstrip("-") for name in task.columns if name != "pc1"]
    absent = [c for c in (task.y, *task.keep, *task.drop, *rule_columns) if c not in frame]
    if absent:
        raise ValueError(f"task {task.name}: the table {task.table!r} lacks the columns {', '.join(absent)}")
    frame = frame[frame[task.y].notna()]
    frame = (frame.query(task.where, engine="python") if task.where else frame).reset_index(drop=True)
    kept = frame[list(task.keep)] if task.keep else frame
    inputs = _typed(kept.drop(columns=[c for c in {*task.drop, task.y} if c in kept]))
    natural = task.rule == "natural"
    nothing = np.zeros(len(frame), dtype=bool)
    return _Table(
        inputs=inputs,
        y=_labels(task, frame[task.y]),
        score=_score(task, frame, inputs) if task.columns else np.zeros(len(frame)),
        in_source=_fulfil(frame, task.source) if natural else nothing,
        in_target=_fulfil(frame, task.target) if natural else nothing,
    )


def _fulfil(frame: Any, query: str) -> NDArray[np.bool_]:
    mask = np.zeros(len(frame), dtype=bool)
    mask[frame.query(query, engine="python").index] = True
    return mask


def _typed(frame: Any) -> Any:
    """Numbers as float64 with NaN, everything else as categories of strings in which missing stays missing."""
    types = require_pandas().api.types

    def typed(column: Any) -> Any:
        if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
            return column.astype(np.float64)
        return column.astype(object).map(str, na_action="ignore").astype("category")

    return frame.apply(typed) if len(frame.columns) else frame


def _labels(task: PanelTask, column: Any) -> NDArray[Any]:
    if task.kind == "regression":
        return TRANSFORMS[task.transform](column.to_numpy(dtype=np.float64))
    if task.positive:
        return (column.astype(str) == task.positive).to_numpy(dtype=np.int64)
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)


def gaussian_rank(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi^-1(average rank / (n + 1)), Phi the normal distribution function; missing values at the median."""
    x = np.where(np.isnan(x), np.nanmedian(x), x)
    return ndtri(rankdata(x) / (len(x) + 1))


def _score(task: PanelTask, frame: Any, inputs: Any) -> NDArray[np.float64]:
    """s: the sum of signed Gaussian ranks over its standard deviation, or the Gaussian rank of pc1 as it is."""
    if task.columns == ("pc1",):
        return gaussian_rank(_first_component(inputs.select_dtypes("number").to_numpy(dtype=np.float64)))
    s = np.zeros(len(frame))
    for name in task.columns:
        rank = gaussian_rank(frame[name.lstrip("-")].to_numpy(dtype=np.float64))
        s += -rank if name.startswith("-") else rank
    return s / np.std(s)


def _first_component(X: NDArray[np.float64]) -> NDArray[np.float64]:
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    X = X[:, X.max(axis=0) > X.min(axis=0)]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    loading = np.linalg.eigh(Z.T @ Z)[1][:, -1]
    return Z @ (loading * np.sign(loading[np.argmax(np.abs(loading))]))


def _pools(task: PanelTask, table: _Table, rng: np.random.Generator) -> tuple[Indices, Indices]:
    n = len(table.y)
    if task.rule == "natural":
        return np.flatnonzero(table.in_source), np.flatnonzero(table.in_target)
    if task.rule == "select":
        chosen = rng.random(n) < expit(SELECTION_STRENGTH[task.strength] * table.score)
        return np.flatnonzero(~chosen), np.flatnonzero(chosen)
    if task.rule == "far":
        low, high = np.quantile(table.score, [0.4, 0.6])
        return np.flatnonzero(table.score <= low), np.flatnonzero(table.score >= high)
    check_choice(f"rule of {task.name}", task.rule, ("natural", "select", "far", "none"))
    order = rng.permutation(n)
    n_pool = int(task.strength.removeprefix("pool=")) if task.strength else n // 2
    return order[:n_pool], order[n_pool:]
