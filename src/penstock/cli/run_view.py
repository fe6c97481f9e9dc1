"""Shows a job while it runs: a table of its queries, or plain lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal import Plain, Redrawn, Shown, drawable, say

LINE_SECONDS = 1.0
"""The time between two plain lines."""


@dataclass(frozen=True)
class RunMoment:
    """Says how a job stands at a moment."""

    elapsed: float
    sic: Mapping[str, float]
    """Each query's, over the last STW."""
    report: Mapping[str, Any]


class RunView(Shown, Protocol):
    """Is told what happens, in order, on one thread."""

    def stage(self, title: str) -> None:
        """Shows that a stage begins."""

    def moment(self, now: RunMoment) -> None:
        """Shows how the job stands."""


def view(console: Console, site: str) -> RunView:
    """Returns a table where the terminal can redraw it, and plain lines elsewhere."""
    return RunScreen(console, site) if drawable(console) else RunLines(console)


class RunScreen(Redrawn):
    """Shows a table and redraws it in place."""

    def __init__(self, console: Console, site: str) -> None:
        self._site, self._title = site, ""
        self._now: RunMoment | None = None
        super().__init__(console)

    def stage(self, title: str) -> None:
        """Changes the title."""
        self._title = title

    def moment(self, now: RunMoment) -> None:
        """Changes the table."""
        self._now = now

    def picture(self) -> RenderableType:
        """Draws the title and the table."""
        title = Text(f"Penstock: {self._site}: {self._title}", style="bold")
        return title if self._now is None else Group(title, table(self._now))


def table(now: RunMoment) -> Table:
    """Returns a table with one row a query."""
    site = now.report["site"]
    shown = Table(
        caption=f"{now.elapsed:.0f} s   busy {site['utilisation']:.0%}   Jain {site['jain']:.3f}",
        caption_justify="left",
    )
    shown.add_column("query")
    for title in ("arrived", "admitted", "shed", "SIC now", "SIC mean", "latency p95", "batches"):
        shown.add_column(title, justify="right")
    for query in now.report["queries"]:
        shown.add_row(
            query["id"],
            *(f"{query[key]:,}" for key in ("arrived", "admitted", "shed")),
            f"{now.sic.get(query['id'], 1.0):.2f}",
            f"{query['sic']:.2f}",
            f"{query['latency_ms']['p95'] / 1000:.1f} s",
            f"{query['batches']:,}",
        )
    return shown


class RunLines(Plain):
    """Shows a line a second, without control characters."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, -LINE_SECONDS

    def stage(self, title: str) -> None:
        """Prints the title of a stage."""
        say(self._console, title)

    def moment(self, now: RunMoment) -> None:
        """Prints how the job stands, if a second has passed since the last line."""
        if now.elapsed >= self._last + LINE_SECONDS:
            self._last = now.elapsed
            say(self._console, line(now))


def line(now: RunMoment) -> str:
    """Returns how a job stands in one line."""
    totals = {
        key: sum(query[key] for query in now.report["queries"])
        for key in ("arrived", "admitted", "shed")
    }
    counted = "  ".join(f"{key} {total:,}" for key, total in totals.items())
    sic = "  ".join(f"{name} {value:.2f}" for name, value in sorted(now.sic.items()))
    return f"[{now.elapsed:4.0f} s] {counted}  SIC: {sic or 'none yet'}"
