"""Default networks, and where a weight model is cut into frozen features and a trained head."""

from __future__ import annotations

import torch
from torch import nn

from covshift.nn.seeds import derive

__all__ = ["make_cnn", "make_mlp", "make_network", "split_frozen"]


def make_mlp(n_features: int, n_outputs: int, hidden: tuple[int, ...] = (64, 64)) -> nn.Sequential:
    """Fully connected layers with ReLU for rows: features, then one linear output layer."""
    layers: list[nn.Module] = []
    width = n_features
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        width = size
    return nn.Sequential(nn.Sequential(*layers), nn.Linear(width, n_outputs))


def make_cnn(channels: int, height: int, width: int, n_outputs: int) -> nn.Sequential:
    """The paper's 5 layers in their usual reading: (features, head).

    features: 5 x 5 convolutions with 6 and 16 channels (the first padded by 2), each with 2 x 2 max pooling; head:
    fully connected 120, 84, `n_outputs`. Pooling before ReLU gives what ReLU before pooling gives, at a quarter
    of the work.
    """
    out_height, out_width = (height // 2 - 4) // 2, (width // 2 - 4) // 2
    if out_height < 1 or out_width < 1:
        raise ValueError(f"images of {height} x {width} are too small for two 5 x 5 convolutions; pass a network.")
    features = nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
    )
    head = nn.Sequential(
        nn.Linear(16 * out_height * out_width, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, n_outputs),
    )
    return nn.Sequential(features, head)


def make_network(shape: tuple[int, ...], n_outputs: int, seed: int, counter: int) -> nn.Sequential:
    """The default network for rows of this shape, (features,) or (channels, height, width), seeded."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(derive(seed, "init", counter).get_state())
        if len(shape) == 3:
            return make_cnn(*shape, n_outputs)
        if len(shape) == 1:
            return make_mlp(shape[0], n_outputs)
    raise ValueError(
        f"there is no default network for rows of shape {shape}; rows are (features,) or (channels, height, width)."
    )


def split_frozen(g: nn.Module, freeze_g: int) -> tuple[nn.Module, nn.Module]:
    """(frozen features, trained head) of g: the first `freeze_g` children of an nn.Sequential, and the rest."""
    if freeze_g == 0:
        return nn.Identity(), g
    if not isinstance(g, nn.Sequential) or not 0 < freeze_g < len(g):
        raise ValueError(
            f"freeze_g={freeze_g} needs g to be an nn.Sequential of more than {freeze_g} children, got "
            f"{type(g).__name__}; wrap it as nn.Sequential(features, head) and pass freeze_g=1."
        )
    return g[:freeze_g], g[freeze_g:]
