"""The layout steps of the stacked CNN: windows, their adjoint, pooling; each one kernel on an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["PooledRelu", "Windows", "adam_update", "forget_compiled", "image_windows", "tf32_products"]


class _Compiled:
    """A function that torch compiles the first time it meets an accelerator, and calls plainly elsewhere."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function
        self.fast: Callable[..., Any] | None = None

    def __call__(self, first: Tensor, *others: Any) -> Any:
        if not first.is_cuda:
            return self.plain(first, *others)
        if self.fast is None:
            self.fast = torch.compile(self.plain, dynamic=False)
        return self.fast(first, *others)


def forget_compiled() -> None:
    """Compile anew: torch keeps a few shapes of a function and runs it uncompiled, several times slower, after them.

    One batch of runs has a few shapes; the next one, of other runs, would be the one too many.
    """
    torch.compiler.reset()
    for kernel in (image_windows, adam_update, _windows_of, _windows_back, _pool_of, _pool_back):
        kernel.fast = None


@contextmanager
def tf32_products() -> Iterator[None]:
    """Let matrix products use the accelerator's TF32 units, as its convolutions do by default; then put it back."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _unfold(z: Tensor) -> Tensor:
    """(..., h, w) -> (..., 5, 5, h - 4, w - 4), a view: every 5 x 5 window's entries, offset first."""
    return z.unfold(-2, 5, 1).unfold(-2, 5, 1).movedim((-2, -1), (-4, -3))


def _image_windows(x: Tensor) -> Tensor:
    """(G, B, h, w), padded by 2 -> (G * B, 25, h * w)."""
    G, B, h, w = x.shape
    return _unfold(functional.pad(x, (2, 2, 2, 2))).reshape(G * B, 25, h * w)


def _windows(z: Tensor) -> Tensor:
    """(G, B, M, c, h, w) -> (G * M, c * 25, B * (h - 4) * (w - 4))."""
    G, _, M, c = z.shape[:4]
    return _unfold(z).permute(0, 2, 3, 4, 5, 1, 6, 7).reshape(G * M, c * 25, -1)


def _windows_adjoint(columns: Tensor, G: int, B: int, M: int, c: int, h: int, w: int) -> Tensor:
    """The adjoint of `_windows`: every entry of an image collects from the 25 windows that hold it."""
    parts = columns.view(G, M, c, 5, 5, B, h - 4, w - 4)
    total = torch.zeros((), dtype=columns.dtype, device=columns.device)
    for i in range(5):
        for j in range(5):
            total = total + functional.pad(parts[:, :, :, i, j], (j, 4 - j, i, 4 - i))
    return total.permute(0, 3, 1, 2, 4, 5).contiguous()


def _pool(z: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(relu(max of every 2 x 2 block + b), which entry it was; 4 where ReLU cuts)."""
    entries = [z[..., i::2, j::2] for i in (0, 1) for j in (0, 1)]
    top, which = entries[0], torch.zeros_like(entries[0], dtype=torch.uint8)
    for k in (1, 2, 3):
        higher = entries[k] > top
        top, which = torch.where(higher, entries[k], top), torch.where(higher, k, which)
    out = top + b
    return out.clamp_min(0.0), torch.where(out > 0, which, 4).to(torch.uint8)


def _pool_adjoint(g: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """(gradient of the blocks, gradient before pooling of the bias)."""
    h, w = g.shape[-2:]
    code = torch.arange(4, dtype=torch.uint8, device=g.device).view(2, 1, 2)
    hit = which[..., :, None, :, None] == code
    blocks = torch.where(hit, g[..., :, None, :, None], 0.0).reshape(*g.shape[:-2], 2 * h, 2 * w)
    return blocks, torch.where(which < 4, g, 0.0)


def _adam_update(
    flat: Tensor, m: Tensor, v: Tensor, gradient: Tensor, owner: Tensor, on: Tensor, size: Tensor, root: Tensor
) -> None:
    """m, v and the parameters after one step of Adam, in place; `on`, `size`, `root` are one number a network."""
    active = on[owner]
    new_m = m + 0.1 * active * (gradient - m)
    new_v = v + 0.001 * active * (gradient * gradient - v)
    m.copy_(new_m)
    v.copy_(new_v)
    flat.sub_(size[owner] * new_m / (new_v.sqrt() / root[owner] + 1e-8))


image_windows = _Compiled(_image_windows)
adam_update = _Compiled(_adam_update)
_windows_of = _Compiled(_windows)
_windows_back = _Compiled(_windows_adjoint)
_pool_of = _Compiled(_pool)
_pool_back = _Compiled(_pool_adjoint)


class Windows(torch.autograd.Function):
    """`_windows` with its adjoint written out (the general adjoint is several times slower)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.shape = z.shape
        return _windows_of(z)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _windows_back(gradients[0].contiguous(), *ctx.shape)


class PooledRelu(torch.autograd.Function):
    """relu(max_pool(z, 2) + b): pooling before bias and ReLU gives the same numbers at a quarter of the work."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, b: Tensor) -> Tensor:
        out, which = _pool_of(z, b)
        ctx.save_for_backward(which)
        ctx.bias_shape = b.shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        blocks, cut = _pool_back(gradients[0].contiguous(), *ctx.saved_tensors)
        return blocks, cut.sum_to_size(ctx.bias_shape)
