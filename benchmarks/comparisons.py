"""Paired comparisons of variants with a reference, data set by data set: from rows to a CSV and to tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from covshift.experiments.rows import Row, atomic_write
from covshift.experiments.stats import paired_p
from covshift.experiments.tables import Cell, Table

LEVEL = 0.05
TITLES = {
    "regression": "One change at a time: the toy and the four regression sets",
    "classification": "One change at a time: the five classification sets",
    "large": "The same with more source rows, and what g is shown with other learners",
    "panel": "Changes that looked better somewhere, on the odd tasks of the panel",
}


def reference_of(variant: str) -> str:
    """What a variant is compared with: the default, or the same learner whose g sees no loss."""
    return f"{variant.split(':')[0]}: coupling=0" if ":" in variant else "default"


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


def compare(rows: Sequence[Row], names: Sequence[str]) -> list[Comparison]:
    """Every variant against its reference on the draws that both could fit; data sets in the order of `names`."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        errors.setdefault((row.problem, row.method), {})[row.seed] = row.value
    out = []
    for name in names:
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


def tables(lines: Sequence[Comparison], groups: Mapping[str, str], stem: str = "defaults") -> list[Table]:
    """A table a group, named stem/group; bold where p < .05. `groups` names the group of each data set."""
    out = []
    for group, title in TITLES.items():
        own = [one for one in lines if groups[one.dataset] == group]
        if own:
            make = _by_dataset if group == "panel" else _by_variant
            out.append(make(f"{stem}/{group}", title, own))
    return out


def _by_variant(name: str, title: str, lines: Sequence[Comparison]) -> Table:
    """Variants down, data sets across; geometric mean, and how many are significantly better and worse."""
    cells = {(one.variant, one.dataset): one for one in lines}
    datasets = list(dict.fromkeys(one.dataset for one in lines))
    body = []
    for variant in dict.fromkeys(one.variant for one in lines):
        found = [cells[variant, dataset] for dataset in datasets if (variant, dataset) in cells]
        shown = [_cell(cells[variant, dataset]) if (variant, dataset) in cells else "" for dataset in datasets]
        better = sum(one.p < LEVEL and one.ratio < 1 for one in found)
        worse = sum(one.p < LEVEL and one.ratio > 1 for one in found)
        body.append([variant, *shown, f"{_geometric_mean(found):.3f}", f"{better}:{worse}"])
    draws = ", ".join(
        f"{dataset} {max(one.trials for one in lines if one.dataset == dataset)}" for dataset in datasets
    )
    notes = (
        "Mean error over the default's (where a learner is named: over that of the same learner with `coupling=0`); "
        "bold: paired t-test, p < .05, not corrected for the number of comparisons.",
        f"Last columns: geometric mean; significantly better : worse. Draws: {draws}.",
    )
    return Table(name, title, ["variant", *datasets, "all", "+:-"], body, notes)


def _by_dataset(table: str, title: str, lines: Sequence[Comparison]) -> Table:
    """Data sets down, variants across; geometric mean over data sets and p of its t-test in the last rows."""
    cells = {(one.variant, one.dataset): one for one in lines}
    variants = list(dict.fromkeys(one.variant for one in lines))
    names = list(dict.fromkeys(one.dataset for one in lines))
    body: list[list[Cell | str]] = [
        [name, *(f"{cells[v, name].ratio:.3f}" if (v, name) in cells else "" for v in variants)] for name in names
    ]
    columns = [[one for one in lines if one.variant == v] for v in variants]
    body.append(["geometric mean", *(f"{_geometric_mean(column):.3f}" for column in columns)])
    p = [stats.ttest_1samp(np.log([one.ratio for one in column]), 0.0).pvalue for column in columns]
    body.append(["p over tasks", *(f"{value:.2g}" for value in p)])
    notes = (f"Mean error over the default's; {max(one.trials for one in lines)} draws a task.",)
    return Table(table, title, ["task", *variants], body, notes)


def _cell(one: Comparison) -> Cell:
    return Cell(f"{one.ratio:.3f}", one.p < LEVEL)


def _geometric_mean(lines: Sequence[Comparison]) -> float:
    return float(np.exp(np.mean(np.log([one.ratio for one in lines]))))
