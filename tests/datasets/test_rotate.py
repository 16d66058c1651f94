"""Rotation: right angles exactly, other angles as SciPy, torch as NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from covshift.datasets._rotate import rotate_images

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 28, 28)).astype(np.uint8)


def test_right_angles_are_numpys_counter_clockwise_turns():
    for turns in range(4):
        expected = np.rot90(IMAGES, turns, axes=(1, 2))
        np.testing.assert_allclose(rotate_images(IMAGES, 90.0 * turns), expected, atol=1e-3)


@pytest.mark.parametrize("degrees", [17.0, 123.4, -30.0])
def test_other_angles_are_scipys(degrees):
    expected = [
        ndimage.rotate(i.astype(float), degrees, reshape=False, order=1, mode="grid-constant") for i in IMAGES
    ]
    np.testing.assert_allclose(rotate_images(IMAGES, degrees), expected, atol=1e-2)


def test_every_image_has_its_own_angle_and_non_square_images_keep_their_size():
    angles = np.array([0.0, 90, 10, 20, 30, 180])
    both = rotate_images(IMAGES, angles)
    for image, angle, turned in zip(IMAGES, angles, both, strict=True):
        np.testing.assert_allclose(rotate_images(image[None], angle)[0], turned, atol=1e-4)
    assert rotate_images(IMAGES[:, :20], angles).shape == (6, 20, 28)


def test_torch_gives_numpys_images():
    torch = pytest.importorskip("torch")
    angles = np.random.default_rng(1).uniform(0, 180, 6)
    for images in (IMAGES, IMAGES[:, :17]):
        turned = rotate_images(torch.tensor(images), torch.tensor(angles))
        np.testing.assert_allclose(turned.numpy(), rotate_images(images, angles), atol=2e-3)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"\(n, height, width\)"):
        rotate_images(IMAGES[0], 10.0)
