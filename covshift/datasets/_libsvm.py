"""The five classification sets of the paper, as LIBSVM publishes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from covshift._checks import check_choice
from covshift.datasets._fetch import read_file
from covshift.datasets._parse import libsvm_text, parse_libsvm, scale_to_unit

__all__ = ["LIBSVM_NAMES", "derive_sonar_scale", "fetch_libsvm", "read_libsvm_table"]

LIBSVM_NAMES = ("australian", "breast-cancer", "diabetes", "heart", "sonar")
POSITIVE = {  # what +1 stands for, and -1
    "australian": "approved against refused",
    "breast-cancer": "malignant against benign",
    "diabetes": "healthy against diabetic (LIBSVM's sign)",
    "heart": "disease against none",
    "sonar": "metal cylinder against rock",
}
Table = tuple[NDArray[np.float64], NDArray[np.int64]]


def read_libsvm_table(name: str, *, scaled: bool, download_if_missing: bool = True) -> Table:
    """Inputs and labels as the files have them: breast cancer unscaled is labelled 2 and 4, all others -1 and +1."""
    if name == "sonar":
        return _sonar(scaled, download_if_missing)
    if name == "heart" and not scaled:
        return _heart(download_if_missing)
    file = f"libsvm/{name}_scale" if scaled else f"libsvm/{name}"
    return parse_libsvm(read_file(file, download_if_missing=download_if_missing))


def _sonar(scaled: bool, download_if_missing: bool) -> Table:
    data = read_file("uci/sonar/sonar.all-data", download_if_missing=download_if_missing)
    rows = [line.split(",") for line in data.decode("ascii").split()]
    X = np.array([[float(text) for text in row[:-1]] for row in rows])
    y = np.array([1 if row[-1] == "M" else -1 for row in rows], dtype=np.int64)
    return (scale_to_unit(X) if scaled else X), y


def _heart(download_if_missing: bool) -> Table:
    data = read_file("uci/statlog-heart/heart.dat", download_if_missing=download_if_missing)
    table = np.array([[float(text) for text in line.split()] for line in data.decode("ascii").splitlines()])
    return table[:, :-1], np.where(table[:, -1] == 2, 1, -1).astype(np.int64)


def derive_sonar_scale(*, download_if_missing: bool = True) -> bytes:
    """Scaled sonar as a LIBSVM file, made from UCI's."""
    return libsvm_text(*_sonar(True, download_if_missing))


def fetch_libsvm(name: str, *, scaled: bool = True, drop_id: bool = False, download_if_missing: bool = True) -> Bunch:
    """One of the paper's five classification sets; labels are -1 and +1.

    Parameters
    ----------
    name : "australian", "breast-cancer", "diabetes", "heart" or "sonar"
        Rows x inputs: 690 x 14, 683 x 10, 768 x 8, 270 x 13, 208 x 60. +1 is: approved, malignant, healthy (LIBSVM
        gives diabetes -1), disease, metal.
    scaled : bool
        Default True: LIBSVM's files with each input in [-1, 1], the form that all five have there. After
        z-scoring it makes no difference beyond print rounding. Unscaled heart is UCI's `heart.dat`; sonar is
        derived from UCI's file in both forms (metal +1 is our choice of sign).
    drop_id : bool
        Breast cancer's first input is the sample's number. Default False: the paper takes LIBSVM's files as they
        are, where the number is an irrelevant input among ten. No other set has one.
    download_if_missing : bool
        False: an error instead of a download.

    Returns
    -------
    Bunch
        data, target (-1 or +1, int64), feature_names ("x1", ... by position in the file), DESCR.
    """
    check_choice("name", name, LIBSVM_NAMES)
    X, labels = read_libsvm_table(name, scaled=scaled, download_if_missing=download_if_missing)
    feature_names = [f"x{j}" for j in range(1, X.shape[1] + 1)]
    if drop_id and name == "breast-cancer":
        X, feature_names = X[:, 1:], feature_names[1:]
    return Bunch(
        data=X,
        target=np.where(labels == labels.max(), 1, -1).astype(np.int64),
        feature_names=feature_names,
        DESCR=f"{name} (LIBSVM data sets, from the UCI repository; Chang and Lin 2011). {POSITIVE[name]}.",
    )
