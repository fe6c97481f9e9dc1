"""Draws a federation: its sites, its queries with the poorest first, and how fair it is to them."""

import sys
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.oracle_watch import FederationMoment
from penstock.cli.sparkline import sparkline, why_shed
from penstock.federation.messages import FAILED, SiteStatistics
from penstock.federation.oracle_messages import ListedQuery, ListedSite

WIDTH_WITHOUT_TERMINAL = 120
"""In characters, where nothing says how wide the output is."""
SITE_TITLES = ("busy", "admits/s", "shed", "backlog", "SIC", "fragments", "refused", "latency p95")
"""Of the columns of numbers."""
QUERY_TITLES = ("SIC now", "SIC mean", "admitted", "shed", "latency p95", "weight", "rows")
MOST_BARS = 12
MODELLED = "* modelled: the stream does not tell when its tuples arrived"


def federation_console() -> Console:
    """Returns a console that is wide enough for the tables, also where it is a file."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_WITHOUT_TERMINAL)


def picture(moment: FederationMoment, title: str, bars: bool = True) -> RenderableType:
    """Returns everything under a title."""
    return Group(
        Text(title, style="bold"),
        sites_table(moment, bars),
        queries_table(moment, bars),
        *map(Text, reasons(moment)),
        *(Text(told, style="red") for told in troubles(moment)),
        Text(verdict(moment)),
    )


def sites_table(moment: FederationMoment, bars: bool = True) -> Table:
    """Returns a table with one row a site; a full bar is a latency at its target, or above it."""
    shown = _table("site", SITE_TITLES)
    if bars:
        shown.add_column("of late")
    shown.add_column("address")
    for site in moment.sites:
        late, target = moment.latency_ms.get(site.site, ()), site.statistics.latency_target_ms
        drawn = [sparkline(late, target or max(late, default=1.0))] if bars else []
        row = [*_site_row(site), *drawn, site.address.removeprefix("http://")]
        shown.add_row(*row, style="red" if site.silent else None)
    return shown


def queries_table(moment: FederationMoment, bars: bool = True) -> Table:
    """Returns a table with one row a query, the poorest first."""
    shown = _table("query", QUERY_TITLES)
    if bars:
        shown.add_column("SIC of late")
    shown.add_column("sites")
    for query in moment.queries.queries:
        row = _query_row(query)
        row += [sparkline(moment.sic.get(query.query, [])[-MOST_BARS:])] if bars else []
        shown.add_row(*row, _sites_of(query), style="red" if query.silent else None)
    return shown


def troubles(moment: FederationMoment) -> list[str]:
    """Says in a line each which fragments have failed; their sites try them again."""
    return [
        f"{site.site} cannot run {fragment.id}: {fragment.trouble}"
        for site in moment.sites
        for fragment in site.fragments
        if fragment.state == FAILED and not site.silent
    ]


def reasons(moment: FederationMoment) -> list[str]:
    """Says which latencies are modelled, which sites shed, and why, and what is held back."""
    measured = [site.statistics.latency_measured for site in moment.sites]
    measured += [query.latency_measured for query in moment.queries.queries]
    found = [MODELLED] if False in measured else []
    for site in (site for site in moment.sites if not site.silent):
        told = site.statistics
        shed = why_shed(told.throughput, told.dropped, told.capacity)
        found += [f"{site.site} {shed}"] if shed else []
        found += [
            f"{site.site}: {query} is held back by {option}"
            for query, option in sorted(told.held_back_by.items())
        ]
    return found


def verdict(moment: FederationMoment) -> str:
    """Says how fairly the queries fare, in a line."""
    answer = moment.queries
    if answer.jain is None or answer.mean_sic is None:
        return "no query has a result yet"
    return f"Jain's index {answer.jain:.4f}; mean SIC {answer.mean_sic:.3f}"


def line(moment: FederationMoment, elapsed: float) -> str:
    """Says how a federation is in one line, and in one more for each fragment that has failed."""
    busy = "  ".join(
        f"{site.site} {'silent' if site.silent else _busy(site.statistics)}"
        for site in moment.sites
    )
    sic = "  ".join(f"{query.query} {_sic(query.sic_now)}" for query in moment.queries.queries)
    told = f"[{elapsed:4.0f} s] busy: {busy or 'nobody yet'}  SIC: {sic or 'none yet'}"
    return "\n".join([told, *troubles(moment)])


def _table(first: str, numbers: Iterable[str]) -> Table:
    shown = Table()
    shown.add_column(first, no_wrap=True)
    for title in numbers:
        shown.add_column(title, justify="right")
    return shown


def _site_row(site: ListedSite) -> list[str]:
    told = site.statistics
    return [
        site.site,
        f"silent {site.age:.0f} s" if site.silent else _busy(told),
        f"{told.throughput:,.0f}",
        _share(told.dropped, told.throughput + told.dropped),
        "-" if told.backlog is None else f"{told.backlog:,.0f}",
        _sic(told.average_sic),
        f"{told.fragments_running}",
        f"{sum(told.refused.values()):,}",
        _against_target(told),
    ]


def _query_row(query: ListedQuery) -> list[str]:
    late = query.latency_ms.get("p95")
    return [
        query.query,
        "silent" if query.silent else _sic(query.sic_now),
        _sic(query.sic),
        f"{query.admitted:,.0f}",
        _share(query.shed, query.arrived),
        "-" if late is None else _seconds(late, query.latency_measured),
        f"{query.weight:g}",
        f"{query.rows:,.0f}",
    ]


def _sites_of(query: ListedQuery) -> str:
    others = [site for site in query.sites if site != query.site]
    return ", ".join([f"{query.site} (root)", *others])


def _busy(told: SiteStatistics) -> str:
    return f"{told.utilisation:.0%}"


def _against_target(told: SiteStatistics) -> str:
    target = f" of {told.latency_target_ms / 1000:g} s" if told.latency_target_ms else ""
    return _seconds(told.latency_ms, told.latency_measured) + target


def _seconds(milliseconds: float, measured: bool | None) -> str:
    return f"{milliseconds / 1000:.1f} s" + (" *" if measured is False else "")


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else "-"


def _sic(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
