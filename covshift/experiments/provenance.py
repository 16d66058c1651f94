"""Where rows come from: versions, commit and machine, in words that name no person and no host."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from covshift import __version__

__all__ = ["NUMERIC_CODE", "provenance"]

PACKAGE = Path(__file__).resolve().parent.parent
# Parts of the package whose text decides the numbers of the kernel experiments.
NUMERIC_CODE = (
    "_checks.py", "_split.py", "blocks", "basis", "losses", "ratio", "weighting", "onestep", "datasets",
    "experiments/methods", "experiments/problems", "experiments/kernel_iwerm.py",
)  # fmt: skip


def provenance(code: Sequence[str] | None = None) -> dict[str, Any]:
    """Versions (a digest of the code that makes the numbers among them), commits and machine.

    Parameters
    ----------
    code : files and folders inside the package that decide the numbers; None: those of the kernel experiments
    """
    versions = {name: _version(name) for name in ("numpy", "scipy", "scikit-learn")}
    versions["covshift"] = __version__
    versions["python"] = platform.python_version()
    versions["code"] = code_digest(tuple(NUMERIC_CODE if code is None else code))
    machine = {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count()}
    commit = _commit()
    return {"versions": versions, "commits": [commit] if commit else [], "machine": machine}


def code_digest(parts: Sequence[str]) -> str:
    """The first 16 digits of the SHA-256 of these files, names included; folders with all below them."""
    digest = hashlib.sha256()
    for part in parts:
        path = PACKAGE / part
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
        for file in files:
            digest.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def _commit() -> str | None:
    """The checkout's commit, marked where package files differ from it; None outside a checkout."""

    def git(*words: str) -> str | None:
        try:
            answer = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit} with local changes" if commit and git("status", "--porcelain", "--", ".") else commit


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
