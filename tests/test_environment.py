"""The set-up script repairs what it finds; nothing is installed here."""

import importlib.util
import json
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parent.parent / "tools" / "environment.py"


@pytest.fixture
def environment():
    spec = importlib.util.spec_from_file_location("environment", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("content", ["{broken", "[1]", ""])
def test_a_stamp_that_is_no_stamp_counts_as_none(environment, tmp_path, content):
    (tmp_path / "covshift-stamp.json").write_text(content)
    assert environment.read_stamp(tmp_path) == {}


def test_what_stays_broken_after_an_installation_is_made_anew_once(environment, tmp_path, monkeypatch):
    venv, installed = tmp_path / "venv", []
    venv.mkdir()

    def install(where, extras):
        where.mkdir(exist_ok=True)
        installed.append(extras)

    monkeypatch.setattr(environment, "install", install)
    monkeypatch.setattr(environment, "works", lambda python, extras: len(installed) >= 2)
    monkeypatch.setattr("sys.argv", ["environment.py", "--venv", str(venv), "--extras", "plot"])
    assert environment.main() == 0
    assert installed == [["plot"], ["plot"]]
    assert json.loads((venv / "covshift-stamp.json").read_text())["extras"] == ["plot"]
    assert environment.main() == 0
    assert len(installed) == 2


def test_a_file_in_the_place_of_the_environment_gives_way(environment, tmp_path):
    (tmp_path / "venv").touch()
    environment.remove(tmp_path / "venv")
    assert not (tmp_path / "venv").exists()


def test_a_relative_folder_is_taken_from_where_make_was_called(environment, tmp_path, monkeypatch):
    seen = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "install", lambda where, extras: where.mkdir(exist_ok=True))
    monkeypatch.setattr(environment, "works", lambda python, extras: seen.append(python) or True)
    monkeypatch.setattr("sys.argv", ["environment.py", "--venv", ".venv", "--extras", "plot"])
    assert environment.main() == 0
    assert set(seen) == {tmp_path / ".venv" / "bin" / "python"}
