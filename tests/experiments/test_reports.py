"""Reports against numbers computed by hand from made-up rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from covshift.experiments.grid import load_experiment
from covshift.experiments.report import folders_with_rows, report_figures, report_tables, write_report
from covshift.experiments.reports.toy import block_of
from covshift.experiments.rows import Row, RowWriter

pytest.importorskip("yaml")


def store(folder, name, values, metric="mse", columns=None):
    """values: problem -> method -> list by seed."""
    methods = list(next(iter(values.values())))
    settings = {
        "experiment": name,
        "trials": len(next(iter(values.values()))[methods[0]]),
        "methods": {m: {} for m in methods},
        "problems": {p: {} for p in values},
    }
    extra = sorted(next(iter(columns.values()))) if columns else ()
    with RowWriter(folder, settings, len(methods), extra=extra) as out:
        for problem, by_method in values.items():
            for seed in range(settings["trials"]):
                of_problem = metric if isinstance(metric, str) else metric[problem]
                own = columns[problem] if columns else {}
                out.add(Row(problem, m, seed, of_problem, by_method[m][seed], 0.5, own) for m in methods)
        out.finish()
    return {table.name: table for table in report_tables(folder)}


def cells(table, row):
    return [cell if isinstance(cell, str) else cell.text for cell in table.rows[row]]


def column(table, j):
    return [cells(table, k)[j] for k in range(len(table.rows))]


def test_toy_prints_mean_sd_and_the_papers_figures(tmp_path):
    values = {"ERM (squared, median)": [0.1, 0.3, 0.2], "default": [0.01, 0.21, 0.11]}
    tables = store(tmp_path, "toy", {"toy": values})
    assert cells(tables["toy/main"], 0) == [
        "ERM (squared, median)", "0.2000 (0.1000)", "0.0577", "yes", "0.5", "0.1453 (0.1812)", "0.04",
    ]  # fmt: skip
    assert [row[1].bold for row in tables["toy/main"].rows] == [False, True]
    assert cells(tables["toy/against-default"], 0)[:2] == ["ERM (squared, median)", "1.818"]


def test_toy_blocks_are_the_papers_four():
    experiment = load_experiment("toy")
    blocks = [block_of(m.name) for m in experiment.methods[:18]]
    assert {block: blocks.count(block) for block in set(blocks)} == {
        ("squared", False): 5, ("Tukey", False): 5, ("squared", True): 4, ("Tukey", True): 4,
    }  # fmt: skip
    assert block_of("control: true ratio (squared, median)") is None


def test_benchmark_normalises_regression_by_the_mean_of_full_erm_and_prints_percent(tmp_path):
    values = {
        "auto": {"ERM": [4.0, 6.0], "ERM (median)": [5.0, 10.0], "default": [2.0, 3.0]},
        "heart": {"ERM": [0.25, 0.35], "ERM (median)": [0.3, 0.4], "default": [0.2, 0.3]},
    }
    tables = store(tmp_path, "benchmark", values, metric={"auto": "mse", "heart": "error_rate"})
    assert cells(tables["benchmark/main"], 0) == ["auto [2]", "1.00 (0.28)", "1.50 (0.71)", "0.50 (0.14)"]
    assert cells(tables["benchmark/main"], 1) == ["heart [2]", "30.00 (7.07)", "35.00 (7.07)", "25.00 (7.07)"]
    assert cells(tables["benchmark/paper"], 0)[:3] == ["auto", "1.00 (0.22)", "1.22 (0.29)"]
    score = cells(tables["benchmark/score"], 0)
    assert score[0] == "ERM" and float(score[-1]) == pytest.approx(np.sqrt(0.5 * 25 / 30), abs=5e-4)


def test_panel_counts_by_kind_and_half(tmp_path):
    rng = np.random.default_rng(0)
    base = {name: 1 + 0.05 * rng.random(6) for name in ("calm", "moved", "apart")}
    values = {
        "calm": {"ERM (median)": base["calm"], "default": base["calm"] * 1.0},
        "moved": {"ERM (median)": base["moved"], "default": base["moved"] * 0.5},
        "apart": {"ERM (median)": base["apart"], "default": base["apart"] * 2.0},
    }
    columns = {
        "calm": {"half": "odd", "shift": "none"},
        "moved": {"half": "even", "shift": "strong selection"},
        "apart": {"half": "even", "shift": "far"},
    }
    tables = store(tmp_path, "panel", values, columns=columns)
    every = {row[0]: cells(tables["panel/all"], i)[2:] for i, row in enumerate(tables["panel/all"].rows)}
    assert every["none"] == ["1", "1.000", "0", "0", "1", "calm 1.00"]
    assert every["strong selection"] == ["1", "0.500", "1", "0", "0", "moved 0.50"]
    assert every["far"] == ["1", "2.000", "0", "1", "0", "apart 2.00"]
    assert every["shift with overlap"] == every["strong selection"]
    assert {row[0] for row in tables["panel/odd"].rows} == {"none"}
    assert {row[0] for row in tables["panel/even"].rows} == {"strong selection", "far", "shift with overlap"}
    assert cells(tables["panel/tasks"], 1)[-1] == "0.500+"


def test_images_print_percent_and_the_highest_in_bold(tmp_path):
    settings = {"scale": 1.0}
    values = {"ERM": [81.0, 82.1], "control: x": [50.0, 90.0], "one-step": [85.0, 86.0], "control: y": [99.0]}
    values["control: true importance"] = [95.0, 96.0]
    with RowWriter(tmp_path / "images", settings, 1, trial_by=("problem", "seed", "method")) as out:
        for method, accuracies in values.items():
            for seed, value in enumerate(accuracies):
                out.add([Row("fashion-mnist (2, 4)", method, seed, "accuracy", value, 1.0)])
    ours, lead, paper = report_tables(tmp_path / "images")
    assert list(ours.header) == ["method", "fashion-mnist (2, 4) [2]"]
    assert column(ours, 0) == ["ERM", "one-step", "control: true importance", "control: x", "control: y"]
    means = ["81.55 (0.78)", "85.50 (0.71)", "95.50 (0.71)", "70.00 (28.28)", "99.00 (0.00) [1]"]
    assert column(ours, 1) == means
    assert [line[1].bold for line in ours.rows] == [False, True, False, True, False]
    with RowWriter(tmp_path / "one" / "images", settings, 1, trial_by=("problem", "seed", "method")) as out:
        for method in values:
            out.add([Row("fashion-mnist (2, 4)", method, 0, "accuracy", values[method][0], 1.0)])
    single = report_tables(tmp_path / "one" / "images")[0]
    assert not any(line[1].bold for line in single.rows)
    assert column(lead, 1) == ["+3.95 (0.05)", "-10.00 (0.00)", "+15.50 (19.50)", "-"]
    assert [line[1].bold for line in lead.rows[:3]] == [True, True, False]
    assert column(paper, 1)[0] == "81.71 (0.17)"
    assert report_figures(tmp_path / "images")[0].name == "accuracy.png"


def test_the_committed_image_rows_are_near_the_papers_level():
    """Rows and report must mean the same by an accuracy: both are percent."""
    table, _, paper = report_tables(Path(__file__).parents[2] / "results" / "images")
    ours = {name.split(" [")[0]: float(column(table, k)[0].split()[0]) for k, name in enumerate(table.header) if k}
    assert paper.rows and column(table, 0)[0] == column(paper, 0)[0] == "ERM"
    for k, name in enumerate(paper.header):
        assert not k or abs(ours[name] - float(column(paper, k)[0].split()[0])) < 15.0, name


def test_failed_fits_are_told_and_left_out(tmp_path):
    values = {"ERM (squared)": [0.2, 0.4, 0.6], "default": [0.1, float("nan"), 0.3]}
    table = store(tmp_path, "toy", {"toy": values})["toy/main"]
    assert cells(table, 1)[1] == "0.2000 (0.1414)"
    assert any("1 x default" in note for note in table.notes)


def test_rows_of_any_other_experiment_get_a_plain_table(tmp_path):
    table = store(tmp_path, "mine", {"p": {"a": [1.0, 2.0]}})["mine/main"]
    assert cells(table, 0) == ["p", "a", "mse", "2", "1.5000 (0.7071)", "0.5"]


def test_report_page_names_commit_and_versions(tmp_path):
    tables = store(tmp_path, "toy", {"toy": {"default": [0.1, 0.2]}})
    text = write_report(tmp_path, list(tables.values())).read_text()
    assert "scikit-learn" in text and "0.1500 (0.0707)" in text


@pytest.mark.parametrize("name", ["toy", "benchmark", "panel"])
def test_figures_are_drawn_from_rows_alone(tmp_path, name):
    pytest.importorskip("matplotlib")
    columns = {"auto": {"half": "odd", "shift": "none"}} if name == "panel" else None
    store(tmp_path, name, {"auto": {"ERM (median)": [1.0, 2.0], "default": [0.5, 1.0]}}, columns=columns)
    (figure,) = report_figures(tmp_path)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_folder_of_folders(tmp_path):
    store(tmp_path / "toy", "toy", {"toy": {"default": [0.1, 0.2]}})
    assert folders_with_rows(tmp_path) == [tmp_path / "toy"]
    with pytest.raises(FileNotFoundError, match="has no rows.csv"):
        folders_with_rows(tmp_path / "toy" / "nothing")
