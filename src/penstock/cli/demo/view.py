"""Shows the demo while it runs: what all views share, and plain lines without a terminal."""

import math
import time
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console

from penstock.cli.demo.meter import Reading
from penstock.cli.terminal import Plain, Shown, say

TITLES = {"plain": "without Penstock", "gated": "with Penstock"}
LINE_SECONDS = 1.0
"""The time between two plain lines."""


class DemoView(Shown, Protocol):
    """Is told what happens, in order, on one thread."""

    def stage(self, title: str, seconds: float, later: float) -> None:
        """Begins a stage that takes about so long; what follows takes `later`, in seconds."""

    def reading(self, run: str, reading: Reading) -> None:
        """Shows how a run stands now."""


@dataclass
class Clock:
    """Says how much of the demo is done, by what its stages are expected to take."""

    began: float = field(default_factory=time.monotonic)
    _stage_ends: float = math.inf
    _later: float = 0.0
    _share: float = 0.0

    def stage(self, seconds: float, later: float) -> None:
        """Begins a stage of so many seconds, with so many seconds to follow."""
        self._stage_ends, self._later = time.monotonic() + seconds, later

    @property
    def elapsed(self) -> float:
        """Returns the seconds since the demo began."""
        return time.monotonic() - self.began

    @property
    def share(self) -> float:
        """Returns the share that is done; it never falls, even where a stage takes longer."""
        left = max(self._stage_ends - time.monotonic(), 0.0) + self._later
        self._share = max(self._share, self.elapsed / (self.elapsed + left or 1.0))
        return self._share


class DemoLines(Plain):
    """Shows one line a second, without control characters."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock = console, clock
        self._last = 0.0

    def stage(self, title: str, seconds: float, later: float) -> None:
        """Prints the title of a stage."""
        self._clock.stage(seconds, later)
        say(self._console, f"[{self._clock.elapsed:3.0f} s] {title}")

    def reading(self, run: str, reading: Reading) -> None:
        """Prints a reading, if a second has passed since the last."""
        if reading.elapsed < self._last or reading.elapsed >= self._last + LINE_SECONDS:
            self._last = reading.elapsed
            say(self._console, f"[{self._clock.elapsed:3.0f} s] {line(TITLES[run], reading)}")


def line(title: str, now: Reading) -> str:
    """Returns a reading in one line."""
    return (
        f"{title:16}  arriving {now.rate:,.0f}/s  arrived {now.arrived:,}  "
        f"admitted {now.admitted:,}  shed {now.shed:,}  waiting {now.waiting:,}  "
        f"SIC {now.sic:.2f}  batch {now.batch_seconds:.1f} s  latency {now.latency:.1f} s"
    )
