"""The how-to-add pages: included files are the real ones, and the example runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from covshift.experiments.problems import toy

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "how_to_add" / name for name in ("method.md", "problem.md")]
INCLUDED = re.compile(r"<!-- include (\S+) -->\n```python\n(.*?)```\n", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_included_files_are_what_they_are(page):
    found = INCLUDED.findall(page.read_text())
    assert found
    for path, text in found:
        assert text == (ROOT / path).read_text(), f"copy {path} into {page.name}: the file has changed"


def test_the_example_of_a_method_runs():
    example = re.search(r"<!-- example -->\n```python\n(.*?)```", PAGES[0].read_text(), re.DOTALL)
    assert example is not None
    names: dict = {}
    exec(example.group(1), names)
    draw = toy.draw(0, n_source=50, n_target=50, n_eval=20)
    assert np.isfinite(names["fit"](draw, 0).predict(draw.X_eval)).all()


def test_every_table_of_the_reproduction_page_is_one_that_a_report_makes():
    names = set(re.findall(r"<!-- table (\S+) -->", (ROOT / "docs" / "reproduction.md").read_text()))
    code = "".join(path.read_text() for path in (ROOT / "covshift" / "experiments" / "reports").glob("*.py"))
    for name in names - {f"panel/{part}" for part in ("odd", "even", "all")}:
        assert f'"{name}"' in code, name
