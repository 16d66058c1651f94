"""Fashion-MNIST and Kuzushiji-MNIST: 70,000 grey images of 28 x 28 each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from covshift.datasets._fetch import read_file
from covshift.datasets._parse import parse_idx

__all__ = ["fetch_fashion_mnist", "fetch_kuzushiji_mnist"]

FASHION_CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip
KUZUSHIJI_CLASSES = list("おきすつなはまやれを")


def _part(folder: str, part: str, download: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images = parse_idx(read_file(f"{folder}/{part}-images-idx3-ubyte.gz", download_if_missing=download))
    labels = parse_idx(read_file(f"{folder}/{part}-labels-idx1-ubyte.gz", download_if_missing=download))
    return images, labels.astype(np.int64)


def _images(folder: str, classes: list[str], description: str, download: bool) -> Bunch:
    data, target = _part(folder, "train", download)
    data_test, target_test = _part(folder, "t10k", download)
    return Bunch(
        data=data,
        target=target,
        data_test=data_test,
        target_test=target_test,
        target_names=list(classes),
        DESCR=description,
    )


def fetch_fashion_mnist(*, download_if_missing: bool = True) -> Bunch:
    """Articles of clothing in ten classes (Xiao, Rasul, Vollgraf 2017; MIT).

    Parameters
    ----------
    download_if_missing : bool
        False: an error instead of a download of 31 MB.

    Returns
    -------
    Bunch
        data (60000, 28, 28) uint8 and target (0..9, int64) of the training images; data_test (10000, 28, 28) and
        target_test of the test images; target_names, DESCR.
    """
    text = "Fashion-MNIST (Xiao, Rasul, Vollgraf, arXiv:1708.07747; MIT)."
    return _images("fashion-mnist", FASHION_CLASSES, text, download_if_missing)


def fetch_kuzushiji_mnist(*, download_if_missing: bool = True) -> Bunch:
    """Cursive Japanese characters in ten classes (Clanuwat et al. 2018; CC BY-SA 4.0).

    Parameters
    ----------
    download_if_missing : bool
        False: an error instead of a download of 21 MB.

    Returns
    -------
    Bunch
        As `fetch_fashion_mnist`.
    """
    text = (
        'KMNIST Dataset (created by CODH), adapted from "Kuzushiji Dataset" (created by NIJL and others), '
        "doi:10.20676/00000341; Clanuwat et al., arXiv:1812.01718; CC BY-SA 4.0."
    )
    return _images("kmnist", KUZUSHIJI_CLASSES, text, download_if_missing)
