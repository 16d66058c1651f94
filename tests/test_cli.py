"""The command: what it prints, its exit codes, and every bad input as one sentence."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from covshift import cli

ROOT = Path(__file__).resolve().parents[1]
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("yaml", "pandas", "torch", "pyarrow", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from covshift.cli import main
sys.exit(main(sys.argv[1:]))
"""


def refused(capsys, *arguments):
    """The sentence of a command that is refused with exit code 2."""
    try:
        code = cli.main(arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    sentence = captured.err.strip()
    assert sentence.startswith("covshift") and "\n" not in sentence and "Traceback" not in sentence
    return sentence


def test_help_is_fast_and_loads_nothing_heavy():
    code = "import sys; from covshift import cli; cli.build_parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "matplotlib", "yaml"} & set(loaded)
    assert not any(name.startswith(("covshift.experiments", "covshift.datasets")) for name in loaded)


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("covshift ")


def test_no_command_shows_help(capsys):
    assert cli.main([]) == 2
    assert "reproduce" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "toy", "--trials", "0"], "--trials: 0 is too few; give 1 or more"),
        (["reproduce", "toy", "--trials", "-3"], "-3 is too few"),
        (["reproduce", "toy", "--trials", "ten"], "'ten' is not a whole number"),
        (["reproduce", "toy", "--jobs", "0"], "--jobs: 0 is too few"),
        (["reproduce", "tay"], "'toy', 'benchmark', 'panel', 'images', 'theory'"),
        (["reproduce", "images", "--scale", "2"], "2 is not in (0, 1]"),
        (
            ["reproduce", "benchmark", "--angles", "fixed"],
            "--angles is not an option of `covshift reproduce benchmark`",
        ),
        (["reproduce", "toy", "--scale", "0.5"], "--scale is not an option of `covshift reproduce toy`"),
        (["reproduce", "theory", "--methods", "x"], "--methods is not an option"),
        (["reproduce", "toy", "--resume", "--overwrite"], "not allowed with argument"),
        (["reproduce", "benchmark", "--methods", "one step (median)"], "did you mean 'one-step (median)'?"),
        (["reproduce", "benchmark", "--datasets", "wines"], "did you mean 'wine'?"),
        (["reproduce", "panel", "--datasets", "ames_non"], "did you mean 'ames_none'?"),
        (["report", "no/such/folder"], "has no rows.csv"),
        (["data", "list", "uci/nothing"], "uci/nothing"),
        (["data", "burn"], "invalid choice"),
        (["fit"], "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, words):
    pytest.importorskip("yaml")
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, *arguments)
    assert not any(tmp_path.iterdir())


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """One tiny run of the real command: two methods, two trials."""
    pytest.importorskip("yaml")
    out = tmp_path_factory.mktemp("results")
    arguments = ["reproduce", "toy", "--trials", "2", "--methods", "ERM (squared, median)", "default"]
    done = _command([*arguments, "--out", str(out), "--jobs", "1", "--json"])
    assert done.returncode == 0, done.stderr
    return out, done


def _command(arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "covshift", *arguments], capture_output=True, text=True, cwd=ROOT, **options
    )


def test_reproduce_writes_rows_settings_report_and_figures(small_run):
    out, done = small_run
    answer = json.loads(done.stdout)
    assert {"rows.csv", "settings.json", "report.md", "tukey.png", "toy.png"} <= {
        p.name for p in (out / "toy").iterdir()
    }
    assert [row[0] for row in answer["tables"][0]["rows"]] == ["ERM (squared, median)", "default"]
    assert "toy: 2/2 trials" in done.stderr
    header, *rows = (out / "toy" / "rows.csv").read_text().splitlines()
    assert header == "problem,method,seed,metric,value,seconds" and len(rows) == 4
    assert json.loads((out / "toy" / "settings.json").read_text())["settings"]["trials"] == 2


def test_existing_rows_are_refused_and_untouched(small_run, capsys):
    out, _ = small_run
    before = (out / "toy" / "rows.csv").read_bytes()
    again = ["reproduce", "toy", "--trials", "2", "--methods", "ERM (squared, median)", "default", "--out", str(out)]
    assert "already has rows and was not touched" in refused(capsys, *again)
    assert "methods: there " in refused(capsys, *again[:4], "--methods", "default", "--resume", "--out", str(out))
    assert "trials: there 2, now 1" in refused(capsys, *again[:3], "1", *again[4:], "--resume")
    assert (out / "toy" / "rows.csv").read_bytes() == before


def test_report_of_the_folder_above_prints_the_tables_again(small_run, capsys, tmp_path):
    out, _ = small_run
    assert cli.main(["report", str(out)]) == 0
    assert "Toy regression: mean squared error on the target, 2 trials" in capsys.readouterr().out
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- table toy/main -->\n<!-- /table -->\n")
    assert cli.main(["report", str(out), "--into", str(page), "--json"]) == 0
    assert str(page) in json.loads(capsys.readouterr().out)["files"]
    assert "| default |" in page.read_text()
    page.write_text("nothing to fill")
    assert "it has no `<!-- table NAME -->`" in refused(capsys, "report", str(out), "--into", str(page))


def test_out_that_is_a_file_is_one_sentence(capsys, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "file").write_text("")
    arguments = ["reproduce", "toy", "--trials", "1", "--methods", "default", "--out", str(tmp_path / "file")]
    assert "part of the path is a file" in refused(capsys, *arguments)


def test_missing_extra_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    said = refused(capsys, "reproduce", "toy", "--out", str(tmp_path / "out"))
    assert said.endswith("pip install 'covshift[reproduce]'")


def test_images_without_torch_name_the_extra(capsys, monkeypatch, tmp_path):
    for name in [n for n in sys.modules if n.startswith(("covshift.experiments.images", "covshift.nn", "torch"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    said = refused(capsys, "reproduce", "images", "--out", str(tmp_path / "out"))
    assert said.endswith("pip install 'covshift[nn]'")


def test_demo_needs_core_and_matplotlib_only_and_says_where_the_files_are(tmp_path):
    pytest.importorskip("matplotlib")
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "COVSHIFT_DATA")}
    environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = "1"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, "demo", "--out", str(tmp_path / "demo")],
        capture_output=True, text=True, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time: the clock on the wall also counts what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    for name in ("tukey.png", "toy.png"):
        assert str(tmp_path / "demo" / name) in done.stdout
        assert (tmp_path / "demo" / name).read_bytes().startswith(b"\x89PNG")
    assert "ERM" in done.stdout and "trials are few" in done.stdout


def test_ctrl_c_is_130_and_keeps_the_rows(tmp_path):
    pytest.importorskip("yaml")
    arguments = ["reproduce", "toy", "--trials", "500", "--methods", "ERM (squared, median)", "--jobs", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "covshift", *arguments, "--out", str(tmp_path)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    rows = tmp_path / "toy" / "rows.csv"
    deadline = time.monotonic() + 60
    while not rows.exists() or rows.read_bytes().count(b"\n") < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group hears it
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "stopped; what is written stays" in said and "Traceback" not in said
    assert rows.read_bytes().count(b"\n") >= 4 and rows.read_bytes().endswith(b"\n")


def test_data_list_knows_every_file_and_touches_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COVSHIFT_DATA", str(tmp_path))
    assert cli.main(["data", "list", "--json"]) == 0
    files = {record["file"] for record in json.loads(capsys.readouterr().out)}
    assert {"uci/auto-mpg/auto-mpg.data", "libsvm/heart_scale"} <= files
    assert not any(tmp_path.iterdir())


def test_changed_file_is_exit_1_and_named(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COVSHIFT_DATA", str(tmp_path))
    path = tmp_path / "uci" / "auto-mpg" / "auto-mpg.data"
    path.parent.mkdir(parents=True)
    path.write_text("18.0 8\n")
    assert cli.main(["data", "verify", "uci/auto-mpg/auto-mpg.data"]) == 1
    assert capsys.readouterr().out.startswith("wrong     uci/auto-mpg/auto-mpg.data")
