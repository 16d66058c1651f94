"""The images of the third table: sources and targets are one set of images under two laws of the angle."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from covshift.datasets import fetch_fashion_mnist, fetch_kuzushiji_mnist
from covshift.datasets._rotate import rotate_images
from covshift.nn.seeds import derive

__all__ = ["DATASETS", "LEVELS", "Images", "beta_angles", "importance", "load_images", "turned"]

LEVELS = ((2, 4), (2, 5), (2, 6))
DATASETS = {"fashion-mnist": fetch_fashion_mnist, "kuzushiji-mnist": fetch_kuzushiji_mnist}


@dataclass(frozen=True)
class Images:
    """Training and test images, (n, 28, 28) with values 0..1, and labels 0..9."""

    X: Tensor
    y: Tensor
    X_test: Tensor
    y_test: Tensor

    def to(self, device: torch.device) -> Images:
        """The same images on `device`."""
        return Images(*(getattr(self, name).to(device) for name in ("X", "y", "X_test", "y_test")))


def load_images(dataset: str, scale: float = 1.0) -> Images:
    """The data set; `scale` keeps the first share of the training and of the test images."""
    bunch = DATASETS[dataset]()
    parts = []
    for images, labels in ((bunch.data, bunch.target), (bunch.data_test, bunch.target_test)):
        n = max(round(scale * len(images)), 256)
        parts += [torch.tensor(images[:n]).float() / 255.0, torch.tensor(labels[:n]).long()]
    return Images(*parts)


def beta_angles(a: int, b: int, n: int, generator: torch.Generator) -> Tensor:
    """n draws of t = angle / 180 degrees from Beta(a, b), a and b whole numbers.

    The a-th smallest of a + b - 1 uniform numbers has this law; no other sampler takes a generator on every device.
    """
    uniform = torch.rand(n, a + b - 1, generator=generator, device=generator.device)
    return uniform.sort(dim=1).values[:, a - 1]


def turned(images: Tensor, a: int, b: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(images under new angles from Beta(a, b), the angles t)."""
    t = beta_angles(a, b, len(images), generator)
    return rotate_images(images, 180.0 * t), t


def importance(t: Tensor, a: int, b: int) -> Tensor:
    """r(t) = p_target / p_source = (t / (1-t))^(b-a), the source Beta(a, b) and the target Beta(b, a).

    Its second moment under the source, a multiple of the integral of t^(2b-a-1) (1-t)^(2a-b-1), is finite only for
    b < 2a: at none of the three levels. No bound that needs E r^2 can be printed for these problems.
    """
    return (t / (1.0 - t)) ** (b - a)


def evaluation_generator(seed: int, device: torch.device) -> torch.Generator:
    """The angles of the test images: one draw a trial, the same for every method."""
    return derive(seed, "rows_evaluation", device=device)
