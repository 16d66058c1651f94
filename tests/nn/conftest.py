"""Without torch there is nothing to collect here; with it, the tests' tiny networks run on one thread."""

from __future__ import annotations

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread_and_one_seed():
    """Tests run in several processes, where networks of a few numbers would spend their time waiting for a second
    thread; and networks that a test makes without a seed are the same in every run."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(torch.Generator().manual_seed(0).get_state())
        yield
    torch.set_num_threads(before)
