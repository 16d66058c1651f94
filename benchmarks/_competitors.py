"""Other packages, in an environment of their own.

Imported by the benchmarks it offers `run_competitor`; run by the other environment's Python it is the competitor.
That side must not import `covshift`, which is not installed there.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

_FOLDER = Path(os.environ.get("COVSHIFT_BENCH_ENV", ".venv-bench"))
_PACKAGES = ("adapt==0.4.5", "densratio==0.4.0")


def run_competitor(task: str, X: np.ndarray, X_target: np.ndarray, **settings: Any) -> dict[str, Any]:
    """Seconds and results of one task on these rows, with the thread settings of this process."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", X=X, X_target=X_target)
        (Path(folder) / "settings.json").write_text(json.dumps(settings))
        done = subprocess.run([_python(), __file__, task, folder], check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{task} failed:\n{done.stderr}")
        return json.loads((Path(folder) / "result.json").read_text())


def _python() -> str:
    python = _FOLDER / "bin" / "python"
    ready = _FOLDER / "ready"
    if not ready.exists():
        print(f"making {_FOLDER} with {', '.join(_PACKAGES)} (some 2 GB, because adapt needs TensorFlow)", flush=True)
        venv.create(_FOLDER, with_pip=True, clear=_FOLDER.exists())
        install = [str(python), "-m", "pip", "install", "-q", *_PACKAGES]
        done = subprocess.run(install, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(_PACKAGES)} could not be installed:\n{done.stderr}")
        ready.touch()
    return str(python)


def ulsif_adapt(X: np.ndarray, T: np.ndarray, bandwidths: list[float], regs: list[float]) -> dict[str, Any]:
    from adapt.instance_based import ULSIF

    gammas = [0.5 / width**2 for width in bandwidths]
    model = ULSIF(kernel="rbf", lambdas=regs, gamma=gammas, max_centers=100, random_state=0, verbose=0)
    return {"seconds": _timed(lambda: model.fit_weights(X, T)), "version": f"adapt {version('adapt')}"}


def ulsif_densratio(X: np.ndarray, T: np.ndarray, bandwidths: list[float], regs: list[float]) -> dict[str, Any]:
    from densratio import densratio

    def fit() -> None:
        densratio(T, X, sigma_range=bandwidths, lambda_range=regs, alpha=0, kernel_num=100, verbose=False)

    return {"seconds": _timed(fit), "version": f"densratio {version('densratio')}"}


def kliep_adapt(X: np.ndarray, T: np.ndarray, bandwidth: float, max_iter: int) -> dict[str, Any]:
    """Frank-Wolfe on one bandwidth, and the certificate log max_j mean_t psi_j / (p_j g) of what it returns."""
    from adapt.instance_based import KLIEP

    gamma = 0.5 / bandwidth**2
    model = KLIEP(
        kernel="rbf",
        gamma=gamma,
        max_centers=100,
        algo="FW",
        tol=0.0,
        max_iter=max_iter,
        random_state=0,
        verbose=0,
    )
    seconds = _timed(lambda: model.fit_weights(X, T))
    C, alpha = model.centers_, np.ravel(model.alphas_)

    def features(rows: np.ndarray) -> np.ndarray:
        return np.exp(-gamma * ((rows[:, None, :] - C[None]) ** 2).sum(axis=2))

    p, Psi = features(X).mean(axis=0), features(T)
    g = Psi @ alpha / (p @ alpha)
    gap = float(np.log(np.max((Psi / g[:, None]).mean(axis=0) / p)))
    objective = float(np.mean(np.log(g)))
    about = {"gap": gap, "objective": objective, "centers": C.tolist(), "version": f"adapt {version('adapt')}"}
    return {"seconds": seconds} | about


def _timed(function: Any) -> float:
    """Seconds by the clock or of the processor, whichever are fewer: on a busy machine that favours them."""
    with contextlib.redirect_stdout(io.StringIO()):
        start, start_processor = time.perf_counter(), time.process_time()
        function()
        return min(time.perf_counter() - start, time.process_time() - start_processor)


_TASKS = {"ulsif-adapt": ulsif_adapt, "ulsif-densratio": ulsif_densratio, "kliep-adapt": kliep_adapt}


def _main(task: str, folder: str) -> None:
    rows = np.load(Path(folder) / "rows.npz")
    settings = json.loads((Path(folder) / "settings.json").read_text())
    result = _TASKS[task](rows["X"], rows["X_target"], **settings)
    (Path(folder) / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
