"""The paper's toy (section 4.1): a sinc, seen around 1 and asked for around 2."""

from __future__ import annotations

from covshift.datasets import make_toy_regression
from covshift.experiments.contract import Draw


def draw(seed: int, *, n_source: int = 150, n_target: int = 150, n_eval: int = 10_000) -> Draw:
    toy = make_toy_regression(n_source, n_target, n_eval, random_state=seed)
    return Draw("regression", toy.X, toy.y, toy.X_target, toy.X_eval, toy.y_eval, toy.true_ratio(toy.X))
