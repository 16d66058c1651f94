"""How near the ratio estimators come to known ratios: `python -m benchmarks.ratio_accuracy`.

Normalised error of the weights w of the source rows, r the true (or relative) ratio there:

    sum (w / mean w - r / mean r)^2 / sum (1 - r / mean r)^2        0 is exact, 1 is no weights at all

Settings: the toy's two Gaussians (150 + 150 rows, 100 seeds); a mean shift of one standard deviation in one of ten
inputs (1000 + 1000 rows, 20 seeds); the same with five of the other inputs in units three times as large, which is
what `standardize` is for. Every registered estimator runs with its defaults; the extra rows name what was changed.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.__main__ import versions
from covshift.datasets._toy import make_toy_regression
from covshift.exceptions import ConvergenceWarning, OverlapWarning
from covshift.ratio import RATIOS

_COLUMNS = ("setting", "estimator", "n_seeds", "median_error", "q25", "q75", "command", "versions")
# (label, name in the registry, parameters that differ from the defaults)
_EXTRA: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("ulsif, median bandwidth", "ulsif", {"bandwidth": "median"}),
    ("ulsif, 5-fold", "ulsif", {"cv": 5}),
    ("ulsif, pairs", "ulsif", {"loo": "pairs"}),
    ("ulsif, not standardised", "ulsif", {"standardize": False}),
    ("rulsif, median bandwidth", "rulsif", {"bandwidth": "median"}),
    ("rulsif, 5-fold", "rulsif", {"cv": 5}),
    ("rulsif, not standardised", "rulsif", {"standardize": False}),
)
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]


def two_gaussians(seed: int) -> Sample:
    toy = make_toy_regression(n_eval=1, random_state=seed)
    return toy.X, toy.X_target, toy.true_ratio(toy.X)


def ten_inputs(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(1000, 10)), rng.normal(size=(1000, 10))
    T[:, 0] += 1.0
    return X, T, np.exp(X[:, 0] - 0.5)


def ten_inputs_in_two_units(seed: int) -> Sample:
    X, T, r = ten_inputs(seed)
    units = np.where(np.arange(10) < 5, 1.0, 3.0)
    return X * units, T * units, r


SETTINGS: dict[str, tuple[Callable[[int], Sample], int]] = {
    "two Gaussians, d = 1, n = 150 + 150": (two_gaussians, 100),
    "shift of one sd in one of ten inputs, n = 1000 + 1000": (ten_inputs, 20),
    "the same, five other inputs in units of three": (ten_inputs_in_two_units, 20),
}


def normalised_error(w: np.ndarray, r: np.ndarray) -> float:
    w, r = w / w.mean(), r / r.mean()
    return float(np.sum((w - r) ** 2) / np.sum((1 - r) ** 2))


def errors(make: Callable[[int], Sample], n_seeds: int, name: str, parameters: dict[str, Any]) -> np.ndarray:
    """Error of one estimator for each seed, RuLSIF's against the relative ratio."""
    found = []
    for seed in range(n_seeds):
        X, T, r = make(seed)
        estimator = RATIOS[name](**parameters)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        a = estimator.get_params().get("relative_alpha", 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            warnings.simplefilter("error", ConvergenceWarning)
            w = estimator.fit(X, X_target=T).weights_
        found.append(normalised_error(w, r / ((1 - a) + a * r)))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ratio_accuracy", description=__doc__)
    parser.add_argument("--seeds", type=int, help="at most this many seeds a setting")
    parser.add_argument("--out", type=Path, default=Path("results/ratio_accuracy.csv"))
    options = parser.parse_args()
    command = "python -m benchmarks.ratio_accuracy" + (f" --seeds {options.seeds}" if options.seeds else "")
    partial = options.out.with_suffix(".tmp")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for setting, (make, most) in SETTINGS.items():
            n_seeds = min(most, options.seeds or most)
            for label, name, parameters in (*((name, name, {}) for name in RATIOS), *_EXTRA):
                low, median, high = np.quantile(errors(make, n_seeds, name, parameters), (0.25, 0.5, 0.75))
                figures = [f"{value:.4f}" for value in (median, low, high)]
                print(f"{setting:56} {label:26} {figures[0]}  [{figures[1]}, {figures[2]}]", flush=True)
                writer.writerow([setting, label, n_seeds, *figures, command, versions()])
    os.replace(partial, options.out)


if __name__ == "__main__":
    main()
