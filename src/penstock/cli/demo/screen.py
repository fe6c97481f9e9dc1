"""Draws the live display: how far the demo is, and both runs side by side."""

import math
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.demo.meter import Reading
from penstock.cli.demo.view import TITLES, Clock
from penstock.cli.terminal import Redrawn

CHART_LINES = 7
BLOCKS = " ▁▂▃▄▅▆▇█"
COLOURS = {"plain": "red", "gated": "green"}
FIGURES: list[tuple[str, Callable[[Reading], str]]] = [
    ("arriving", lambda now: f"{now.rate:,.0f}/s ({now.load:g}x)"),
    ("arrived", lambda now: f"{now.arrived:,}"),
    ("admitted", lambda now: f"{now.admitted:,}"),
    ("shed", lambda now: f"{now.shed:,}"),
    ("waiting", lambda now: f"{now.waiting:,}"),
    ("completeness (SIC)", lambda now: f"{now.sic:.2f}"),
    ("last batch", lambda now: f"{now.batch_seconds:.1f} s"),
    ("latency", lambda now: f"{now.latency:.1f} s"),
]


class DemoScreen(Redrawn):
    """Shows the last readings; a thread of its own redraws it four times a second."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock, self._title = console, clock, ""
        self._readings: dict[str, list[Reading]] = {run: [] for run in TITLES}
        super().__init__(console)

    def stage(self, title: str, seconds: float, later: float) -> None:
        """Shows that a stage begins."""
        self._title = title
        self._clock.stage(seconds, later)

    def reading(self, run: str, reading: Reading) -> None:
        """Adds a reading to a run's chart."""
        before = self._readings[run]
        if before and before[-1].elapsed > reading.elapsed:  # the run began again
            before.clear()
        before.append(reading)

    def picture(self) -> RenderableType:
        """Draws the progress bar and both runs."""
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(justify="right", width=14)
        bar.add_row(
            ProgressBar(total=1.0, completed=self._clock.share),
            f"{self._clock.share:4.0%}  {self._clock.elapsed:4.0f} s",
        )
        runs = Table.grid(padding=(0, 1), expand=True)
        runs.add_row(*(self._panel(run) for run in TITLES))
        return Group(Text(f"Penstock demo: {self._title}", style="bold"), bar, runs)

    def _panel(self, run: str) -> Panel:
        readings = list(self._readings[run])
        width = max(10, self._console.width // 2 - 14)
        top = max((r.latency for rows in self._readings.values() for r in list(rows)), default=1.0)
        chart = plot(latency_by_time(readings, width), top, CHART_LINES)
        drawn = [
            Text.assemble((label, "dim"), (bars, COLOURS[run]))
            for label, bars in zip(scale(top, CHART_LINES), chart, strict=True)
        ]
        rows = figures(readings[-1] if readings else None)
        return Panel(
            Group(*drawn, rows),
            title=TITLES[run],
            subtitle="latency: age of the oldest tuple",
            border_style=COLOURS[run],
        )


def figures(now: Reading | None) -> Table:
    """Returns the figures of a reading as a table."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", min_width=18)
    table.add_column(justify="right", min_width=16)
    for label, text in FIGURES:
        table.add_row(label, "" if now is None else text(now))
    return table


def latency_by_time(readings: list[Reading], width: int) -> list[float | None]:
    """Returns the highest latency in each of `width` parts of the run; None where unknown."""
    columns: list[float | None] = [None] * width
    for reading in readings:
        place = min(int(reading.through * width), width - 1)
        columns[place] = max(columns[place] or 0.0, reading.latency)
    return columns


def plot(columns: list[float | None], top: float, height: int) -> list[str]:
    """Draws bars of eighths of a character, the highest line first."""
    eighths = [
        0 if value is None else max(1, math.ceil(value / top * height * 8)) for value in columns
    ]
    return [
        "".join(BLOCKS[min(max(bar - 8 * row, 0), 8)] for bar in eighths)
        for row in reversed(range(height))
    ]


def scale(top: float, height: int) -> list[str]:
    """Returns the labels to the left of a chart's lines: the highest value, and 0."""
    return [f"{top:4.0f} s ", *[" " * 7] * (height - 2), f"{0:4.0f} s "]
