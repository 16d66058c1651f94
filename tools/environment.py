"""Make, reuse or repair the project's virtual environment; used by the Makefile, standard library only.

The environment holds a stamp file with the digest of everything that decides its content (pyproject.toml,
constraints.txt, the interpreter, the extras). Equal stamp and a Python that still imports the package: nothing
to do. Anything else is brought up to date; what cannot be repaired in place is made anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {
    "plot": "about 350 MB",
    "all": "about 1.7 GB (with the CPU build of PyTorch; other builds are larger)",
}
PROBES = {"plot": ["matplotlib"], "all": ["matplotlib", "pandas", "pyarrow", "yaml", "torch", "safetensors"]}
PROBES["dev"] = ["pytest", "xdist", "hypothesis", "polars", "skops"]


def digest() -> str:
    content = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        content.update((ROOT / name).read_bytes())
    content.update(repr((sys.version_info[:2], str(ROOT))).encode())
    return content.hexdigest()


def read_stamp(venv: Path) -> dict:
    try:
        stamp = json.loads((venv / "covshift-stamp.json").read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def works(python: Path, extras: list[str]) -> bool:
    """Whether the environment's interpreter starts and finds the package and its extras."""
    names = ["covshift", "sklearn", *(name for extra in extras for name in PROBES.get(extra, []))]
    code = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in {names!r}))"
    try:
        return subprocess.run([python, "-c", code], cwd=ROOT / "tools", capture_output=True).returncode == 0
    except OSError:
        return False


def starts(python: Path) -> bool:
    try:
        return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def remove(venv: Path) -> None:
    if not venv.exists():
        return
    print(f"{venv} is broken or half made: making it anew", flush=True)
    if venv.is_dir() and not venv.is_symlink():
        shutil.rmtree(venv)
    else:
        venv.unlink()


def install(venv: Path, extras: list[str]) -> None:
    python = venv / "bin" / "python"
    if not starts(python):
        remove(venv)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (venv / "covshift-stamp.json").unlink(missing_ok=True)
    size = next((SIZES[extra] for extra in ("all", "plot") if extra in extras), "about 300 MB")
    print(f"installing covshift[{','.join(extras)}] into {venv}: {size} on disk, once", flush=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "-c", ROOT / "constraints.txt", "-e", f"{ROOT}[{','.join(extras)}]"],
        check=True,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--extras", default="plot")
    options = parser.parse_args()
    wanted = set(options.extras.split(","))
    venv: Path = options.venv.absolute()  # the interpreter is started from other folders too
    stamp = read_stamp(venv)
    have = set(stamp.get("extras", [])) if stamp.get("digest") == digest() else set()
    if "all" in have:
        have.add("plot")
    if wanted <= have and works(venv / "bin" / "python", sorted(wanted)):
        return 0
    # What an earlier command installed stays: `make demo` after `make test` keeps the tests' packages.
    extras = sorted(wanted | set(stamp.get("extras", [])))
    try:
        install(venv, extras)
        if not works(venv / "bin" / "python", extras):  # files are gone that pip believes to be there
            remove(venv)
            install(venv, extras)
    except subprocess.CalledProcessError as problem:
        print(f"setting up {venv} failed ({problem}); check the network and call the same command again")
        return 1
    if not works(venv / "bin" / "python", extras):
        print(f"{venv} was set up but does not import what it should; remove it and call the same command again")
        return 1
    (venv / "covshift-stamp.json").write_text(json.dumps({"digest": digest(), "extras": extras}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
