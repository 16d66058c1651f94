"""How far a run is: a bar with the time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress", "duration"]

WIDTH = 30
SECONDS_BETWEEN_LINES = 20.0


def duration(seconds: float) -> str:
    """
    >>> duration(75), duration(7322)
    ('1:15', '2:02:02')
    """
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m}:{s:02d}"


class Progress:
    """Counts trials; `done` of them were there before and say nothing about the speed."""

    def __init__(self, what: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.what, self.total, self.done, self.before = what, total, done, done
        self.stream = sys.stderr if stream is None else stream
        self.start = time.monotonic()
        self._said = -SECONDS_BETWEEN_LINES
        self._show()

    def step(self) -> None:
        self.done += 1
        self._show()

    def close(self) -> None:
        if self.stream.isatty():
            print(file=self.stream, flush=True)

    def text(self) -> str:
        elapsed = time.monotonic() - self.start
        made = self.done - self.before
        left = f", {duration(elapsed / made * (self.total - self.done))} left" if made else ""
        return f"{self.what}: {self.done}/{self.total} trials, {duration(elapsed)}{left}"

    def _show(self) -> None:
        if self.stream.isatty():
            filled = WIDTH * self.done // max(self.total, 1)
            bar = "#" * filled + "." * (WIDTH - filled)
            print(f"\r[{bar}] {self.text()}\x1b[K", end="", file=self.stream, flush=True)
            return
        elapsed = time.monotonic() - self.start
        if elapsed - self._said >= SECONDS_BETWEEN_LINES or self.done == self.total:
            self._said = elapsed
            print(self.text(), file=self.stream, flush=True)
