"""list, fetch and verify: one record a file, whatever state it is in."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from covshift.datasets import _inventory, fetch_all, list_files, verify_all
from covshift.datasets._registry import data_files


def test_list_has_a_record_for_every_file(empty_folders):
    records = list_files()
    assert [record.file for record in records] == [entry.file for entry in data_files()]
    assert len(records) == 33
    statuses = {record.file: record.status for record in records}
    assert statuses.pop("libsvm/sonar_scale.derived") == "derived"
    assert statuses.pop("uci/pima-diabetes/pima-indians-diabetes.data") == "withdrawn"
    assert set(statuses.values()) == {"missing"}
    assert json.loads(json.dumps([asdict(record) for record in records]))[0]["status"] == "missing"


def test_everything_at_hand_verifies(data_folder):
    assert {record.status for record in list_files()} == {"present"}
    assert {record.status for record in verify_all()} == {"ok"}


def test_a_wrong_file_is_reported_and_the_others_go_on(data_folder, empty_folders):
    data, _ = empty_folders
    for file, change in (("libsvm/australian", b""), ("libsvm/diabetes_scale", b"x")):
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        (data / file).write_bytes((data_folder / file).read_bytes() + change)
    records = {record.file: record for record in verify_all(["libsvm"])}
    assert records["libsvm/australian"].status == "ok"
    assert records["libsvm/diabetes_scale"].status == "wrong"
    assert "SHA-256" in records["libsvm/diabetes_scale"].message
    assert records["libsvm/heart_scale"].status == "missing"
    assert records["libsvm/sonar_scale.derived"].status == "missing"


def test_fetch_goes_on_after_a_failure_and_reports_each(empty_folders, monkeypatch):
    def fetch(entry):
        if entry.file == "libsvm/australian":
            raise FileNotFoundError("libsvm/australian could not be downloaded")
        path = empty_folders[0] / entry.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return path

    monkeypatch.setattr(_inventory, "fetch_file", fetch)
    seen = []
    records = fetch_all(["libsvm/", "uci/pima-diabetes"], report=seen.append)
    assert seen == records
    statuses = {record.file: record.status for record in records}
    assert statuses["libsvm/australian"] == "failed"
    assert statuses["libsvm/heart_scale"] == "fetched"
    assert statuses["libsvm/sonar_scale.derived"] == "derived"
    assert statuses["uci/pima-diabetes/pima-indians-diabetes.data"] == "withdrawn"
    assert {record.status for record in fetch_all(["libsvm/heart_scale"])} == {"present"}


def test_an_unknown_name_is_refused_with_the_nearest(empty_folders):
    with pytest.raises(ValueError, match="did you mean 'kmnist'"):
        list_files(["kmnst"])
