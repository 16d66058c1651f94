"""One line a round: losses, effective sample size, time left."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Progress", "format_seconds"]


def format_seconds(seconds: float) -> str:
    """ "41 s", "3 min 20 s", "1 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Progress:
    """Prints a round's record where `verbose` asks for it."""

    def __init__(self, verbose: int, rounds: int, done: int = 0) -> None:
        self.verbose = verbose
        self.rounds = rounds
        self._first = done
        self._started = time.perf_counter()

    def round(self, record: dict[str, Any]) -> None:
        """Say how the round went."""
        if not self.verbose:
            return
        done = record["round"] + 1
        spent = time.perf_counter() - self._started
        left = spent / max(done - self._first, 1) * (self.rounds - done)
        parts = [f"round {done}/{self.rounds}", f"loss {record['loss']:.4f}"]
        if record.get("objective") is not None:
            parts.append(f"J {record['objective']:.4f}")
        parts.append(f"ESS {record['ess']:.1f} of {record['rows']}")
        if record.get("validation") is not None:
            parts.append(f"validation {record['validation']:.4f}")
        if record["skipped"]:
            parts.append(f"{record['skipped']} mini-batches without weight skipped")
        print("  ".join([*parts, f"{format_seconds(left)} left"]), flush=True)
