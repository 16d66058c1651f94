"""Many copies of the 5-layer CNN as one: stacked parameters, batched matrix products, one optimiser for all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from covshift.experiments.images.kernels import PooledRelu, Windows, adam_update, image_windows

__all__ = ["StackedAdam", "StackedSGD", "conv_features", "head_outputs", "stack"]


def stack(networks: Sequence[nn.Module]) -> tuple[Tensor, list[Tensor]]:
    """(flat, parameters): all parameters of R networks in one flat tensor, and a (R, ...) view of it for each.

    One flat tensor lets an optimiser step on everything in a handful of kernels.
    """
    named = [list(network.parameters()) for network in networks]
    blocks = [torch.stack([p.detach() for p in same]) for same in zip(*named, strict=True)]
    flat = torch.cat([block.reshape(-1) for block in blocks])
    return flat, views(flat, [block.shape for block in blocks])


def views(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Leaves that share the flat tensor's memory."""
    parts = flat.split([shape.numel() for shape in shapes])
    return [part.view(shape).requires_grad_() for part, shape in zip(parts, shapes, strict=True)]


def conv_features(parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Outputs (R, B, 400) of the convolutional layers of R networks.

    x is (G, B, h, w): network r reads the images of group r // (R / G), so the first layer's windows are laid out
    once a group. Both layers are batched matrix products over windows.
    """
    w1, b1, w2, b2 = parameters[:4]
    (G, B), R = x.shape[:2], len(w1)
    M, h, w = R // G, x.shape[2] // 2, x.shape[3] // 2
    weight = w1.view(G, 1, M * 6, 25).expand(G, B, M * 6, 25).reshape(G * B, M * 6, 25)
    z = torch.bmm(weight, image_windows(x)).view(G, B, M * 6, 2 * h, 2 * w)
    z = PooledRelu.apply(z, b1.view(G, 1, M * 6, 1, 1)).view(G, B, M, 6, h, w)
    z = torch.bmm(w2.view(R, 16, 150), Windows.apply(z)).view(R, 16, B, h - 4, w - 4)
    z = PooledRelu.apply(z, b2.view(R, 16, 1, 1, 1)).view(R, 16, B, -1)
    return z.transpose(1, 2).reshape(R, B, -1)


def head_outputs(parameters: Sequence[Tensor], z: Tensor) -> Tensor:
    """Outputs (R, B, K) of three fully connected layers of R networks on their features (R, B, width)."""
    for layer in range(0, len(parameters), 2):
        weight, bias = parameters[layer], parameters[layer + 1]
        z = torch.baddbmm(bias[:, None, :], z, weight.transpose(1, 2))
        if layer + 2 < len(parameters):
            z = z.relu()
    return z


class StackedAdam:
    """Adam on R stacked networks with a step count each; a network that is not `active` is left exactly as it is."""

    def __init__(self, flat: Tensor, parameters: Sequence[Tensor], rate: float) -> None:
        R = len(parameters[0])
        self.flat, self.parameters = flat, list(parameters)
        self.m, self.v = torch.zeros_like(flat), torch.zeros_like(flat)
        self.steps = torch.zeros(R, device=flat.device)
        self.rate = torch.tensor(rate, device=flat.device)
        owners = [torch.arange(R, device=flat.device).repeat_interleave(p[0].numel()) for p in parameters]
        self._owner = torch.cat(owners)

    def step(self, value: Tensor, active: Tensor) -> None:
        """One step on the sum of the networks' losses; `active` is (R,) of zeros and ones."""
        gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, self.parameters)])
        with torch.no_grad():
            self.steps += active
            steps = self.steps.clamp_min(1.0)
            size = active * self.rate / (1.0 - 0.9**steps)
            root = (1.0 - 0.999**steps).sqrt()
            adam_update(self.flat, self.m, self.v, gradient, self._owner, active, size, root)

    def state(self) -> list[Tensor]:
        """What a checkpoint keeps beside the parameters."""
        return [self.m, self.v, self.steps]


class StackedSGD:
    """Plain gradient descent on R stacked networks with a rate each."""

    def __init__(self, flat: Tensor, parameters: Sequence[Tensor], rates: Tensor) -> None:
        self.flat, self.parameters, self.rates = flat, list(parameters), rates

    def step(self, value: Tensor) -> None:
        """One step on the sum of the networks' objectives."""
        gradients = torch.autograd.grad(value, self.parameters)
        with torch.no_grad():
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter -= self.rates.view(-1, *[1] * (parameter.ndim - 1)) * gradient
