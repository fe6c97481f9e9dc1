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
TITLES = (
    "arrived",
    "admitted",
    "shed",
    "SIC now",
    "SIC mean",
    "latency p95",
    "backlog",
    "batches",
)
"""Of the columns behind the query's name."""


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
        if self._now is None:
            return title
        return Group(title, table(self._now), *map(Text, held_back(self._now.report)))


def table(now: RunMoment) -> Table:
    """Returns a table with one row a query."""
    site = now.report["site"]
    shown = Table(
        caption=f"{now.elapsed:.0f} s   busy {site['utilisation']:.0%}   Jain {site['jain']:.3f}",
        caption_justify="left",
    )
    shown.add_column("query")
    watches = ("would shed", "would p95, modelled") if now.report["watch"] else ()
    if watches:
        shown.title = "only watching: nothing is shed"
    for title in (*TITLES, *watches):
        shown.add_column(title, justify="right")
    for query in now.report["queries"]:
        shown.add_row(
            query["id"],
            *(f"{query[key]:,}" for key in ("arrived", "admitted", "shed")),
            f"{now.sic.get(query['id'], 1.0):.2f}",
            f"{query['sic']:.2f}",
            latency(query["latency_ms"]),
            backlog(query["backlog"]),
            f"{query['batches']:,}",
            *((f"{query['would_shed']:,}", _seconds(query["would_latency_ms"])) if watches else ()),
        )
    return shown


def latency(told: Mapping[str, Any]) -> str:
    """Returns the 95th percentile, and says so where it is not measured."""
    return f"{told['p95'] / 1000:.1f} s" + ("" if told["measured"] else " (modelled)")


def backlog(tuples: int | None) -> str:
    """Returns how many tuples wait at the sources."""
    return "unknown" if tuples is None else f"{tuples:,}"


def held_back(report: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each query that a read limit, and not the machine, holds back."""
    return [_held_back(query) for query in report["queries"] if query["held_back_by"]]


def _held_back(query: Mapping[str, Any]) -> str:
    let_in, arriving = query["let_in_per_second"], query["arriving_per_second"]
    figures = [f"it lets in {let_in:,.0f} tuples a second"] if let_in is not None else []
    figures += [f"{arriving:,.0f} arrive"] if arriving is not None else []
    told = f": {', '.join(figures)}" if figures else ""
    return f"{query['id']} is held back by {query['held_back_by']}{told}"


def would_be(query: Mapping[str, Any]) -> str:
    """Returns what would be shed of a query, of a site that only watches."""
    p95 = _seconds(query["would_latency_ms"])
    return f"would shed {query['would_shed']:,}, latency p95 {p95} (modelled)"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


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
    told = f"[{now.elapsed:4.0f} s] {counted}  SIC: {sic or 'none yet'}"
    if now.report["watch"]:
        shed = sum(query["would_shed"] for query in now.report["queries"])
        told = f"{told}  only watching: would shed {shed:,}"
    return "; ".join([told, *held_back(now.report)])
