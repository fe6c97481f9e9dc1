"""What an experiment is, and what it answers: tables, plots, raw figures, and what holds.

An experiment describes its plots as data (``Plot``, ``Line``) and draws nothing itself, so that
it can be tested without a picture and every picture looks alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

Say = Callable[[str, float], None]
"""``say("overload 4, seed 2", 0.37)``: what is being done, and which part of all is done."""

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    def markdown(self) -> str:
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(map(_text, line))} |" for line in lines)


@dataclass(frozen=True)
class Line:
    """Points of one series; ``low`` and ``high`` are drawn as a band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Plot:
    name: str
    """Of its file; unique within the experiment."""
    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[str, float]] = ()
    """Horizontal lines that help to read it: a threshold, what the paper says."""


@dataclass
class Result:
    """What came out. ``holds`` has a sentence for each claim, and whether it was seen to hold."""

    title: str
    paper: str
    """Which document, and which figures or sections of it."""
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Where we differ from the paper, and why."""
    holds: dict[str, bool] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    """Everything that was measured, for JSON."""


@runtime_checkable
class Experiment(Protocol):
    """A class with a ``name`` in a module of this package is found by the command line.

    ``run`` gets an ``effort`` between 0 and 1: 1 is what the results page shows, and something
    near 0 proves in seconds that it runs. It says how far it is, and keeps to its seeds.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """One line, for the list of experiments."""

    def run(self, effort: float, say: Say) -> Result: ...


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return str(cell)
