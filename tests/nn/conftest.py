"""Without torch there is nothing to collect here; with it, the tests' tiny networks run on one thread."""

from __future__ import annotations

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run in several processes; networks of a few numbers spend their time waiting for a second thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
