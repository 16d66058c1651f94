"""results/toy_core.csv: the rows of the core's accuracy table, summarised from results/toy/rows.csv.

    python tools/toy_core.py

One line a method: mean and standard error of the squared error over the trials, the bound that is wanted where there
is one, and the command, versions and machine that made the rows.
"""

from __future__ import annotations

import csv
import json
import statistics
from collections import defaultdict
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results"
# Wanted: mean <= bound + 2 standard errors.
BOUNDS = {
    "one-step (squared, median)": 0.0149,
    "one-step (Tukey, median)": 0.0145,
    "default": 0.0140,
}
METHODS = [
    *(f"{name} (squared, median{grid})" for grid in ("", ", regs from 1e-4") for name in
      ("ERM", "EIWERM", "RIWERM", "one-step")),
    "one-step (Tukey, median)",
    "default",
    "control: default without the loss term",
    "control: ERM, basis and selection of the default",
    "control: EIWERM, basis and selection of the default",
]  # fmt: skip


def main() -> None:
    values: dict[str, list[float]] = defaultdict(list)
    with (RESULTS / "toy" / "rows.csv").open() as file:
        for row in csv.DictReader(file):
            values[row["method"]].append(float(row["value"]))
    about = json.loads((RESULTS / "toy" / "settings.json").read_text())
    made_by = {"command": "covshift reproduce toy --out results", "seeds": f"0..{about['settings']['trials'] - 1}"}
    made_by |= {key: json.dumps(about[key]) for key in ("versions", "machine", "commits")}
    with (RESULTS / "toy_core.csv").open("w", newline="") as file:
        columns = ("method", "trials", "mean", "standard_error", "wanted", "reached", *made_by)
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for method in METHODS:
            errors = values[method]
            mean, error = statistics.fmean(errors), statistics.stdev(errors) / len(errors) ** 0.5
            bound = BOUNDS.get(method)
            reached = "" if bound is None else str(mean <= bound + 2 * error)
            line = {"method": method, "trials": len(errors), "mean": f"{mean:.5f}", "standard_error": f"{error:.5f}"}
            writer.writerow(line | {"wanted": bound or "", "reached": reached} | made_by)


if __name__ == "__main__":
    main()
