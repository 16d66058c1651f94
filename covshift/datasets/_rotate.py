"""Images turned by any angle, in NumPy or in torch, on the CPU or an accelerator."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["rotate_images"]

_CHUNK = 4096  # images at a time: four corner reads of each are held in memory


def rotate_images(images: Any, degrees: Any) -> Any:
    """Turn every image counter-clockwise by its own angle about its centre; the size stays, outside is zero.

    out(r, c) = image at (y cos t + x sin t, x cos t - y sin t) by bilinear interpolation, (y, x) = (r, c) - centre,
    y downwards: 90 degrees takes the right edge to the top, as `numpy.rot90` does.

    Parameters
    ----------
    images : (n, height, width) array or torch tensor of any number type
    degrees : (n,) array or tensor, or one number for all

    Returns
    -------
    array (or tensor on the images' device) of the same shape and range of values; float64 stays, all else is float32

    Examples
    --------
    >>> import numpy as np
    >>> rotate_images(np.array([[[1, 2], [3, 4]]]), 90.0).round(3)
    array([[[2., 4.],
            [1., 3.]]], dtype=float32)
    """
    if getattr(images, "ndim", 0) != 3:
        raise ValueError(f"images must be (n, height, width), got shape {np.shape(images)}.")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(images, torch.Tensor):
        return _rotate_torch(images, degrees)
    images = np.asarray(images)
    degrees = np.broadcast_to(np.asarray(degrees, dtype=np.float64), len(images))
    dtype = np.float64 if images.dtype == np.float64 else np.float32
    out = np.empty(images.shape, dtype=dtype)
    for start in range(0, len(images), _CHUNK):
        part = slice(start, start + _CHUNK)
        out[part] = _rotate_numpy(images[part].astype(dtype), degrees[part])
    return out


def _rotate_numpy(images: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    n, height, width = images.shape
    t = np.deg2rad(degrees)[:, None, None]
    y = (np.arange(height) - (height - 1) / 2)[None, :, None]
    x = (np.arange(width) - (width - 1) / 2)[None, None, :]
    rows = y * np.cos(t) + x * np.sin(t) + (height - 1) / 2
    columns = x * np.cos(t) - y * np.sin(t) + (width - 1) / 2
    r0, c0 = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    down, right = (rows - r0).astype(images.dtype), (columns - c0).astype(images.dtype)
    # A border of zeros on each side; reads further out land on it as well.
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    which = np.arange(n)[:, None, None]
    out = np.zeros_like(images)
    for dr, weight_r in ((0, 1 - down), (1, down)):
        for dc, weight_c in ((0, 1 - right), (1, right)):
            r, c = np.clip(r0 + dr + 1, 0, height + 1), np.clip(c0 + dc + 1, 0, width + 1)
            out += weight_r * weight_c * padded[which, r, c]
    return out


def _rotate_torch(images: Any, degrees: Any) -> Any:
    import torch
    from torch.nn import functional

    n, height, width = images.shape
    dtype = images.dtype if images.dtype in (torch.float32, torch.float64) else torch.float32
    t = torch.deg2rad(torch.as_tensor(degrees, dtype=dtype, device=images.device)).expand(n)
    # torch's grid is (x, y) in units of half the distance between the outer pixel centres.
    half_height, half_width = max(height - 1, 1) / 2, max(width - 1, 1) / 2
    zero = torch.zeros_like(t)
    across = torch.stack([t.cos(), -t.sin() * (half_height / half_width), zero], dim=1)
    down = torch.stack([t.sin() * (half_width / half_height), t.cos(), zero], dim=1)
    matrix = torch.stack([across, down], dim=1)
    out = torch.empty(n, height, width, dtype=dtype, device=images.device)
    for start in range(0, n, 16 * _CHUNK):
        part = slice(start, start + 16 * _CHUNK)
        grid = functional.affine_grid(matrix[part], [len(t[part]), 1, height, width], align_corners=True)
        turned = functional.grid_sample(
            images[part, None].to(dtype), grid, mode="bilinear", padding_mode="zeros", align_corners=True
        )
        out[part] = turned[:, 0]
    return out
