"""A step that is run thousands of times: replayed as a CUDA graph on an accelerator, called plainly elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["replayable"]


def replayable(step: Callable[[], None], state: Sequence[Tensor], device: torch.device) -> Callable[[], None]:
    """`step` as one launch. It must read and write fixed tensors only; `state` are those that it changes.

    Capturing runs the step a few times, so the state is put back afterwards.
    """
    if device.type != "cuda":
        return step
    kept = [tensor.detach().clone() for tensor in state]
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    with torch.no_grad():
        for tensor, before in zip(state, kept, strict=True):
            tensor.copy_(before)
    return graph.replay
