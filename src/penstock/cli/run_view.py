"""Shows a job while it runs: a table of its queries, or plain lines."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.sparkline import sparkline, why_shed
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
    target_seconds: float = 0.0
    """The latency that the site holds; 0 where nobody says."""
    late: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By query, seconds from arrival to result of its last batches, the p95 of each."""
    admitted_per_second: float = 0.0
    shed_per_second: float = 0.0
    """Both over the last STW."""


class RecentRates:
    """Turns totals of a report into tuples a second over the last STW."""

    def __init__(self, stw_seconds: float) -> None:
        self._stw_seconds = stw_seconds
        self._known: deque[tuple[float, int, int]] = deque()

    def note(self, elapsed: float, report: Mapping[str, Any]) -> tuple[float, float]:
        """Answers how many tuples were admitted a second, and how many were shed."""
        admitted, shed = (sum(q[key] for q in report["queries"]) for key in ("admitted", "shed"))
        self._known.append((elapsed, admitted, shed))
        while len(self._known) > 2 and self._known[1][0] < elapsed - self._stw_seconds:
            self._known.popleft()
        began, admitted_then, shed_then = self._known[0]
        seconds = max(elapsed - began, 1e-3)
        return (admitted - admitted_then) / seconds, (shed - shed_then) / seconds


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
        return Group(title, table(self._now), *map(Text, reasons(self._now)))


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
    shown.add_column("latency of late")
    for query in now.report["queries"]:
        shown.add_row(
            query["id"],
            *(f"{query[key]:,}" for key in ("arrived", "admitted", "shed")),
            f"{now.sic.get(query['id'], 1.0):.2f}",
            f"{query['sic']:.2f}",
            latency(query["latency_ms"], now.target_seconds),
            backlog(query["backlog"]),
            f"{query['batches']:,}",
            *((f"{query['would_shed']:,}", _seconds(query["would_latency_ms"])) if watches else ()),
            _of_late(now, query["id"]),
        )
    return shown


def _of_late(now: RunMoment, query: str) -> str:
    """Draws the latency of the last batches; a full bar is at the target, or above it."""
    late = now.late.get(query, ())
    return sparkline(late, now.target_seconds or max(late, default=1.0))


def latency(told: Mapping[str, Any], target_seconds: float = 0.0) -> str:
    """Returns the 95th percentile against the target, and says so where it is not measured."""
    target = f" of {target_seconds:g} s" if target_seconds > 0 else ""
    return f"{told['p95'] / 1000:.1f} s{target}" + ("" if told["measured"] else " (modelled)")


def backlog(tuples: int | None) -> str:
    """Returns how many tuples wait at the sources."""
    return "unknown" if tuples is None else f"{tuples:,}"


def reasons(now: RunMoment) -> list[str]:
    """Returns a sentence for what is shed, and why, and for each query that is held back."""
    capacity = now.report["site"]["capacity"]
    shed = why_shed(now.admitted_per_second, now.shed_per_second, capacity)
    return [*([f"the site {shed}"] if shed else []), *held_back(now.report)]


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
    return "; ".join([told, *reasons(now)])
