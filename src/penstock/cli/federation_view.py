"""Draws a federation: its sites, its queries with the poorest first, and how fair it is to them."""

import sys
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.oracle_watch import FederationMoment
from penstock.federation.messages import FAILED, SiteStatistics
from penstock.federation.oracle_messages import ListedQuery, ListedSite

WIDTH_WITHOUT_TERMINAL = 120
"""In characters, where nothing says how wide the output is."""
BARS = "▁▂▃▄▅▆▇█"
SITE_TITLES = (
    *("busy", "admits/s", "sheds/s", "latency p95", "SIC", "fragments", "connected", "refused"),
)
"""Of the columns of numbers."""
QUERY_TITLES = ("SIC now", "SIC mean", "rows", "latency p95", "fragments")


def federation_console() -> Console:
    """Returns a console that is wide enough for the tables, also where it is a file."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_WITHOUT_TERMINAL)


def picture(moment: FederationMoment, title: str, bars: bool = True) -> RenderableType:
    """Returns everything under a title."""
    return Group(
        Text(title, style="bold"),
        sites_table(moment.sites),
        queries_table(moment, bars),
        *(Text(told, style="red") for told in troubles(moment)),
        Text(verdict(moment)),
    )


def sites_table(sites: Iterable[ListedSite]) -> Table:
    """Returns a table with one row a site."""
    shown = _table("site", SITE_TITLES)
    shown.add_column("address")
    for site in sites:
        shown.add_row(*_site_row(site), style="red" if site.silent else None)
    return shown


def queries_table(moment: FederationMoment, bars: bool = True) -> Table:
    """Returns a table with one row a query, the poorest first."""
    shown = _table("query", QUERY_TITLES)
    if bars:
        shown.add_column("SIC of late")
    shown.add_column("sites")
    for query in moment.queries.queries:
        row = _query_row(query)
        row += [sparkline(moment.sic.get(query.query, ()))] if bars else []
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


def verdict(moment: FederationMoment) -> str:
    """Says how fairly the queries fare, in a line."""
    answer = moment.queries
    if answer.jain is None or answer.mean_sic is None:
        return "no query has a result yet"
    return f"Jain's index {answer.jain:.4f}; mean SIC {answer.mean_sic:.3f}"


def sparkline(values: Iterable[float]) -> str:
    """Draws numbers from 0 to 1 as bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    return "".join(BARS[min(int(value * len(BARS)), len(BARS) - 1)] for value in values)


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
        f"{told.dropped:,.0f}",
        _against_target(told),
        _sic(told.average_sic),
        f"{told.fragments_running}",
        f"{told.fragments_connected}",
        f"{sum(told.refused.values()):,}",
        site.address,
    ]


def _query_row(query: ListedQuery) -> list[str]:
    late = query.latency_ms.get("p95")
    return [
        query.query,
        "silent" if query.silent else _sic(query.sic_now),
        _sic(query.sic),
        f"{query.rows:,.0f}",
        "-" if late is None else f"{late / 1000:.1f} s",
        f"{query.fragments}",
    ]


def _sites_of(query: ListedQuery) -> str:
    others = [site for site in query.sites if site != query.site]
    return ", ".join([f"{query.site} (root)", *others])


def _busy(told: SiteStatistics) -> str:
    return f"{told.utilisation:.0%}"


def _against_target(told: SiteStatistics) -> str:
    target = f" of {told.latency_target_ms / 1000:g} s" if told.latency_target_ms else ""
    return f"{told.latency_ms / 1000:.1f} s{target}"


def _sic(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
