"""What runs: names, files and numbers of the YAML files."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from covshift.exceptions import MissingExtraError
from covshift.experiments.contract import Spec
from covshift.experiments.grid import HERE, choose, found, load_experiment, load_yaml

pytest.importorskip("yaml")


def test_toy_has_the_papers_18_rows_under_its_names():
    names = [method.name for method in load_experiment("toy").methods]
    assert names[:18] == list(load_yaml(HERE / "grids" / "paper.yaml")["toy"])
    assert [name for name in names if "regs from 1e-4" in name] == [
        name.replace(")", ", regs from 1e-4)") for name in names[10:18]
    ]


def test_benchmark_has_the_papers_columns_and_data_sets():
    experiment, paper = load_experiment("benchmark"), load_yaml(HERE / "grids" / "paper.yaml")["benchmark"]
    assert [method.name for method in experiment.methods][:8] == paper["columns"]
    assert [problem.name for problem in experiment.problems] == [name for name in paper if name != "columns"]
    assert all(len(paper[problem.name]) == 8 for problem in experiment.problems)


def test_panel_has_every_task_once_with_its_kind_of_shift_and_half():
    problems = load_experiment("panel").problems
    assert len({problem.name for problem in problems}) == 41
    assert {p.columns["half"] for p in problems} == {"odd", "even"}
    assert {p.columns["shift"] for p in problems} == {
        "none", "mild selection", "strong selection", "natural", "far",
    }  # fmt: skip
    assert problems[0].columns["half"] == "odd"


@pytest.mark.parametrize(("name", "trials"), [("toy", 100), ("benchmark", 100), ("panel", 20)])
def test_exactly_one_default_and_files_that_exist(name, trials):
    experiment = load_experiment(name)
    assert experiment.trials == trials
    assert [m.name for m in experiment.methods].count("default") == 1
    assert {m.file for m in experiment.methods} <= set(found("methods"))
    assert {p.file for p in experiment.problems} <= set(found("problems"))
    others = [m.name for m in experiment.methods if m.file in ("default", "eiwerm_like_default", "true_ratio")]
    assert all(other == "default" or other.startswith("control: ") for other in others)


def test_grids_are_numbers():
    full = {m.name: m for m in load_experiment("toy").methods}["EIWERM (squared)"].options
    assert full["bandwidth_f"] == pytest.approx(np.geomspace(0.1, 2, 9))
    assert full["reg_g"] == pytest.approx(np.logspace(-3, 0, 9))
    assert full["exponents"] == pytest.approx(np.arange(11) / 10)


def test_part_of_an_experiment_keeps_the_order_of_the_file():
    experiment = load_experiment("benchmark", trials=3, methods=["default", "ERM"], problems=["wine", "auto"])
    assert [m.name for m in experiment.methods] == ["ERM", "default"]
    assert [p.name for p in experiment.problems] == ["auto", "wine"]
    assert experiment.settings()["trials"] == 3


def test_a_file_in_no_grid_goes_by_its_own_name():
    specs = choose("method", ["mine"], [Spec("ERM", "erm")], ["erm", "mine"])
    assert specs == (Spec("mine", "mine"),)


def test_unknown_names_say_which_exist_and_the_nearest():
    with pytest.raises(ValueError, match=r"unknown method 'defualt'; did you mean 'default'\? \(there are 'ERM'"):
        load_experiment("benchmark", methods=["defualt"])
    with pytest.raises(ValueError, match=r"unknown data set 'hart'; did you mean 'heart'\?"):
        load_experiment("benchmark", problems=["hart"])


def test_without_yaml_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"covshift\[reproduce\]"):
        load_experiment("toy")
