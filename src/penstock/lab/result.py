"""What an experiment is, what it answers, and how its answer is written down.

The answer has tables, plots, raw figures, and the claims of the paper that were seen to hold.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from penstock.plots import Plot, draw

Say = Callable[[str, float], None]
"""``say("overload 4, seed 2", 0.37)``: what is being done, and which part of all is done."""

Cell = str | float | int | None


@dataclass(frozen=True)
class ResultTable:
    """Is one table of a result, with a title and named columns."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    def markdown(self) -> str:
        """Writes the table as Markdown does."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(map(_text, line))} |" for line in lines)


@dataclass
class Result:
    """Holds what came out of an experiment.

    ``holds`` has a sentence for each claim, and whether it was seen to hold.
    """

    title: str
    paper: str
    """Which document, and which figures or sections of it."""
    tables: list[ResultTable] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Where we differ from the paper, and why."""
    holds: dict[str, bool] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    """Everything that was measured, for JSON."""


@runtime_checkable
class Experiment(Protocol):
    """Is what ``penstock reproduce`` runs; a class with a ``name`` in this package is one.

    ``run`` gets an ``effort`` between 0 and 1: 1 is what the results page shows, and something
    near 0 proves in seconds that it runs. It says how far it is, and keeps to its seeds.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """One line, for the list of experiments."""

    def run(self, effort: float, say: Say) -> Result:
        """Runs the experiment; ``say`` gets what is being done, and which part is done."""


def publish(result: Result, name: str, directory: Path, effort: float = 1.0) -> None:
    """Writes ``name.md``, ``name.json`` and an SVG for each plot."""
    directory.mkdir(parents=True, exist_ok=True)
    for plot in result.plots:
        draw(plot, directory / f"{name}-{plot.name}.svg")
    raw = {
        "experiment": name,
        "effort": effort,
        "paper": result.paper,
        "holds": result.holds,
        "tables": [
            {"title": t.title, "rows": [dict(zip(t.columns, row, strict=True)) for row in t.rows]}
            for t in result.tables
        ],
        "figures": result.figures,
    }
    (directory / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    (directory / f"{name}.md").write_text(page(result, name, effort))


def page(result: Result, name: str, effort: float = 1.0) -> str:
    """Writes the page that people read, in Markdown."""
    command = f"penstock reproduce {name} --effort {effort:g}"
    parts = [f"# {result.title}", f"`{command}`: {result.paper}."]
    if result.holds:
        claims = result.holds.items()
        parts.append(
            "\n".join(f"- {'holds' if good else '**does not hold**'}: {c}" for c, good in claims)
        )
    for table in result.tables:
        parts += [f"## {table.title}", table.markdown()]
    parts += [f"![{plot.title}]({name}-{plot.name}.svg)" for plot in result.plots]
    if result.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return str(cell)
