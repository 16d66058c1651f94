"""`import covshift`: what it costs beyond scikit-learn, and what it must not load."""

from __future__ import annotations

import subprocess
import sys

from benchmarks._record import Record

_UNWANTED = ("torch", "matplotlib", "dask", "pandas")
# scikit-learn as our modules import it anyway, then ours, in one process.
_CODE = f"""
import sys, time
import numpy, scipy.linalg, scipy.optimize, scipy.special
import sklearn.base, sklearn.linear_model, sklearn.model_selection, sklearn.pipeline, sklearn.calibration, sklearn.svm
before, start = set(sys.modules), time.perf_counter()
import covshift
print(time.perf_counter() - start, *(name for name in {_UNWANTED!r} if name in set(sys.modules) - before))
"""


def import_time() -> Record:
    """Best of ten fresh processes."""
    said = [
        subprocess.run([sys.executable, "-c", _CODE], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(10)
    ]
    loaded = sorted({name for _, *names in said for name in names})
    seconds = min(float(first) for first, *_ in said)
    if loaded:
        raise RuntimeError(f"import covshift loads {', '.join(loaded)}")
    return Record(
        "import covshift beyond scikit-learn", seconds, "s", 0.15, at_most=True, note="loads none of the extras"
    )
