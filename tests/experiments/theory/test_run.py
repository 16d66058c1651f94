"""The whole of `reproduce theory` at its smallest: trials, resume, tables, figures, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.exceptions import ResumeMismatchError
from covshift.experiments.rows import read_rows
from covshift.experiments.theory import _map, _rates, _run, _theorem1, run_theory, theory_figures, theory_tables


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(_map, "MAP_SIZES", (150,))
    monkeypatch.setattr(_rates, "SIZES", (50, 200))
    monkeypatch.setattr(_run, "VIOLATION_DRAWS", 100)
    monkeypatch.setattr(_run, "THEOREM1_DRAWS", 50)


def numbers(rows):
    return [(r.problem, r.method, r.seed, r.metric, r.value) for r in rows]


def test_rows_tables_and_figures_of_the_smallest_run(small, tmp_path):
    rows = run_theory(tmp_path, trials=2)
    assert {row.problem for row in rows} == set(_run.trial_rows())
    assert numbers(rows) == numbers(read_rows(tmp_path))
    assert all(np.isfinite(row.value) for row in rows)
    tables = theory_tables(rows, {})
    names = ["violations", "theorem1", "rates", "remark", "map-cv", "map-hindsight"]
    assert [table.name for table in tables] == [f"theory/{name}" for name in names]
    assert len(tables[1].rows) == len(_theorem1.CASES)
    assert len(tables[4].rows) == len(_map.PROFILES) * len(_map.MODELS)
    for table in tables:
        assert all(len(line) == len(table.header) for line in table.rows)
        assert "nan" not in table.markdown()
    files = theory_figures(rows, tmp_path)
    assert [file.name for file in files] == ["violations.png", "rates.png", "remark.png", "map.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 10_000 for file in files)


def test_a_run_cut_short_is_continued_to_the_same_rows(small, tmp_path):
    whole = run_theory(tmp_path / "whole", trials=1)
    run_theory(tmp_path / "cut", trials=1)
    path = tmp_path / "cut" / "rows.csv"
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])
    assert numbers(run_theory(tmp_path / "cut", trials=1, mode="resume")) == numbers(whole)


def test_rows_are_not_touched_without_resume_or_overwrite(small, tmp_path):
    run_theory(tmp_path, trials=1)
    before = (tmp_path / "rows.csv").read_bytes()
    with pytest.raises(FileExistsError, match=r"--resume"):
        run_theory(tmp_path, trials=1)
    assert (tmp_path / "rows.csv").read_bytes() == before


def test_fewer_trials_cannot_continue_more(small, tmp_path):
    run_theory(tmp_path, trials=2)
    with pytest.raises(ResumeMismatchError, match="trials"):
        run_theory(tmp_path, trials=1, mode="resume")


def test_more_trials_continue_and_keep_what_is_there(small, tmp_path):
    first = {row[:4]: row[4] for row in numbers(run_theory(tmp_path, trials=1))}
    grown = {row[:4]: row[4] for row in numbers(run_theory(tmp_path, trials=2, mode="resume"))}
    assert set(first) < set(grown) and all(grown[key] == value for key, value in first.items())


def test_two_processes_make_the_same_rows_as_one(small, tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "tasks", lambda trials, all_tasks=_run.tasks: all_tasks(trials)[:4])
    one = run_theory(tmp_path / "one", trials=1)
    assert numbers(run_theory(tmp_path / "two", trials=1, jobs=2)) == numbers(one)


@pytest.mark.parametrize(("change", "message"), [({"trials": 0}, "trials=0"), ({"jobs": 0}, "jobs=0")])
def test_bad_counts_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        run_theory(tmp_path, **change)
    assert not (tmp_path / "rows.csv").exists()


def test_the_full_run_is_as_large_as_the_page_says():
    everything = _run.tasks(_run.TRIALS)
    draws = sum(_run.VIOLATION_DRAWS for task in everything if task.problem == "violations")
    pairs = sum(_run.THEOREM1_DRAWS for task in everything if task.problem.startswith("theorem 1"))
    remark = sum(len(task.seeds) for task in everything if task.problem == "remark/misspecified")
    assert draws >= 2000 and pairs >= 100_000 and remark >= 200
    assert _rates.SIZES[0] == 50 and _rates.SIZES[-1] == 51_200
    assert _map.MAP_SIZES == (150, 600, 2400, 9600)
