"""Rows: kept through kills, refused where they would mix, told in one sentence where the disk says no."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from covshift.exceptions import ResumeMismatchError
from covshift.experiments import rows as rows_module
from covshift.experiments.rows import Row, RowWriter, read_rows, read_settings

SETTINGS = {"experiment": "toy", "methods": ["a", "b"], "trials": 3}


def trial(seed, problem="toy", methods=("a", "b")):
    return [Row(problem, method, seed, "mse", 0.1 * seed + i / 3, 0.25) for i, method in enumerate(methods)]


def write(folder, seeds=(0, 1), mode="new", settings=SETTINGS, **params):
    with RowWriter(folder, settings, 2, mode=mode, **params) as out:
        for seed in seeds:
            out.add(trial(seed))
        return out.finish()


def test_rows_come_back_as_the_same_numbers(tmp_path):
    written = write(tmp_path)
    assert read_rows(tmp_path) == written
    assert [row.value for row in read_rows(tmp_path)] == [0.0, 1 / 3, 0.1, 0.1 + 1 / 3]


def test_file_does_not_depend_on_the_order_of_trials(tmp_path):
    write(tmp_path / "one", seeds=(0, 1, 2))
    write(tmp_path / "two", seeds=(2, 0, 1))
    assert (tmp_path / "one" / "rows.csv").read_bytes() == (tmp_path / "two" / "rows.csv").read_bytes()


def test_existing_rows_are_not_touched_without_being_asked(tmp_path):
    write(tmp_path)
    before = (tmp_path / "rows.csv").read_bytes()
    with pytest.raises(FileExistsError, match=r"rows.csv already has rows.*--resume.*--overwrite"):
        write(tmp_path, seeds=(5,))
    assert (tmp_path / "rows.csv").read_bytes() == before


def test_overwrite_starts_anew(tmp_path):
    write(tmp_path)
    write(tmp_path, seeds=(2,), mode="overwrite")
    assert {row.seed for row in read_rows(tmp_path)} == {2}


@pytest.mark.parametrize("cut", [1, 7, 22, 30])
def test_resume_drops_the_torn_trial_and_nothing_else(tmp_path, cut):
    whole = write(tmp_path, seeds=(0, 1))
    path = tmp_path / "rows.csv"
    path.write_bytes(path.read_bytes()[:-cut])
    with RowWriter(tmp_path, SETTINGS, 2, mode="resume") as out:
        assert out.done == {("toy", "0")}
        out.add(trial(1))
        assert out.finish() == whole


def test_resume_refuses_other_settings_with_the_difference(tmp_path):
    write(tmp_path)
    with pytest.raises(ResumeMismatchError, match=r"methods: there \['a', 'b'\], now \['a'\]"):
        RowWriter(tmp_path, {**SETTINGS, "methods": ["a"]}, 2, mode="resume")


def test_resume_refuses_another_version_with_the_difference(tmp_path):
    write(tmp_path)
    path = tmp_path / "settings.json"
    about = json.loads(path.read_text())
    about["versions"]["covshift"] = "0.0.1"
    path.write_text(json.dumps(about))
    with pytest.raises(ResumeMismatchError, match=r"covshift: there '0.0.1', now "):
        RowWriter(tmp_path, SETTINGS, 2, mode="resume")
    assert len(read_rows(tmp_path)) == 4


def test_trials_may_grow_but_not_shrink(tmp_path):
    write(tmp_path)
    assert len(write(tmp_path, seeds=(2, 3), mode="resume", settings={**SETTINGS, "trials": 4})) == 8
    with pytest.raises(ResumeMismatchError, match="trials: there 4, now 1"):
        write(tmp_path, seeds=(), mode="resume", settings={**SETTINGS, "trials": 1})


def test_resume_refuses_rows_without_their_settings(tmp_path):
    write(tmp_path)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ResumeMismatchError, match="not a settings file"):
        RowWriter(tmp_path, SETTINGS, 2, mode="resume")
    (tmp_path / "settings.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"settings.json is not there"):
        RowWriter(tmp_path, SETTINGS, 2, mode="resume")


def test_extra_columns_are_fixed_at_the_start_and_come_back(tmp_path):
    with RowWriter(tmp_path, SETTINGS, 1, extra=("n",), trial_by=("problem", "seed", "n")) as out:
        out.add([Row("rate", "theory", 0, "gap", 1.5, 0.1, {"n": 100})])
        out.add([Row("rate", "theory", 0, "gap", 1.0, 0.1, {"n": 200})])
        assert out.done == {("rate", "0", "100"), ("rate", "0", "200")}
        out.finish()
    assert [row.extra["n"] for row in read_rows(tmp_path)] == ["100", "200"]
    assert (tmp_path / "rows.csv").read_text().startswith("problem,method,seed,metric,value,seconds,n\n")


def test_half_a_trial_is_refused(tmp_path):
    with RowWriter(tmp_path, SETTINGS, 2) as out:
        with pytest.raises(ValueError, match="has 1 rows where trial_rows says 2"):
            out.add(trial(0)[:1])
        with pytest.raises(ValueError, match="rows of one trial, got 2"):
            out.add([*trial(0)[:1], *trial(1)[:1]])


def test_full_disk_keeps_the_rows_and_says_so(tmp_path, monkeypatch):
    with RowWriter(tmp_path, SETTINGS, 2) as out:
        out.add(trial(0))
        whole = rows_module._write_all

        def full(file, data):
            file.write(data[:9])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(rows_module, "_write_all", full)
        with pytest.raises(OSError, match=r"rows.csv: the disk is full; rows written so far are kept.*--resume"):
            out.add(trial(1))
        monkeypatch.setattr(rows_module, "_write_all", whole)
        assert {row.seed for row in read_rows(tmp_path)} == {0}
        assert (tmp_path / "rows.csv").read_text().endswith("\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_really_full_device_is_one_sentence(tmp_path):
    with open("/dev/full", "wb", buffering=0) as file:
        with pytest.raises(OSError, match="the disk is full"):
            with rows_module._told(tmp_path):
                rows_module._write_all(file, b"row")


def test_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="part of the path is a file"):
        write(tmp_path / "file" / "toy")


def test_read_only_folder_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(rows_module.Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match=r"may not be written.*choose another --out"):
        write(tmp_path / "toy")


def test_settings_name_versions_and_machine_but_no_host(tmp_path):
    write(tmp_path)
    about = read_settings(tmp_path)
    assert {"covshift", "numpy", "scipy", "scikit-learn", "python", "code"} <= set(about["versions"])
    assert about["machine"]["cores"] == os.cpu_count()
    assert set(about["machine"]) == {"system", "processor", "cores"}


def test_broken_line_names_file_and_line(tmp_path):
    write(tmp_path)
    path = tmp_path / "rows.csv"
    path.write_text(path.read_text() + "toy,a,x,mse,1.0,0.1\n")
    with pytest.raises(ValueError, match=r"rows.csv, line 6: .* is not a row"):
        read_rows(tmp_path)


def test_kill_loses_at_most_the_trial_in_hand(tmp_path):
    code = f"""
import time
from covshift.experiments.rows import Row, RowWriter
with RowWriter({str(tmp_path)!r}, {SETTINGS!r}, 2) as out:
    for seed in range(10**6):
        out.add([Row("toy", m, seed, "mse", 1.0, 0.1) for m in "ab"])
        print(seed, flush=True)
        time.sleep(0.001)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    said = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    process.wait()
    kept = {row.seed for row in read_rows(tmp_path)}
    assert set(range(int(said[-1]) + 1)) <= kept
