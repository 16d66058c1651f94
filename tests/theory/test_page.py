"""docs/theory.md: its example runs, its links exist, and its tables are those of the committed rows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from covshift.experiments.rows import read_rows
from covshift.experiments.theory import _map, _rates, _report, _violations

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "theory.md", ROOT / "results" / "theory"


@pytest.fixture(scope="module")
def rows():
    return read_rows(RESULTS)


def test_the_example_of_the_page_runs():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried >= 3 and failed == 0


def test_links_and_pictures_exist():
    targets = re.findall(r"\]\((\.\./[^)]+)\)", PAGE.read_text())
    assert len(targets) >= 5
    assert all((PAGE.parent / target).exists() for target in targets)


def test_the_map_of_the_page_is_that_of_the_committed_rows(rows):
    methods = ["k=1", "k=10", "k=100", "control: no weights", "control: loss-free / variance"]
    text = PAGE.read_text()
    for model in _map.MODELS:
        for profile in _map.PROFILES:
            by_n = [_report.log_ratios(rows, profile, model, n, _map.METRICS[0]) for n in _map.MAP_SIZES]
            cells = [" ".join(f"{np.exp(one[method].mean()):.2f}" for one in by_n) for method in methods]
            assert f"| {model}, {profile} | {' | '.join(cells)} |" in text


def test_the_claims_of_the_page_hold_in_the_committed_rows(rows):
    found = _report.cells(rows, _violations.PROBLEM)
    for method in _violations.METHODS:
        draws = found[method, "draws", _violations.N].sum()
        assert draws >= 2000
        for delta in _violations.DELTAS:
            assert found[method, f"violations, delta={delta:g}", _violations.N].sum() == 0
            assert found[method, f"violations of a hundredth, delta={delta:g}", _violations.N].sum() > 0.1 * draws
    assert all(row.value == 0 for row in rows if row.problem.startswith("theorem 1") and row.metric == "violations")
    for name in ("well specified", "misspecified"):
        draws, constants = _report.rate_columns(rows, name)
        assert sorted(draws["R"]) == list(_rates.SIZES)
        assert _report.slope(draws["J_UB - min J_UB"])[2] < -0.5
        remark = _report.cells(rows, f"remark/{name}")
        assert np.all(remark["joint", "J_hat", 150] <= remark["two-step", "J_hat", 150] + 1e-9)
