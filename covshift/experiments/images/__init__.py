"""`covshift reproduce images`: the paper's third table, rotated Fashion-MNIST and Kuzushiji-MNIST (needs PyTorch)."""

from __future__ import annotations

from covshift.experiments.images.methods import METHODS, Method
from covshift.experiments.images.run import run_images

__all__ = ["METHODS", "Method", "run_images"]
