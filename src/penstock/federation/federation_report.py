"""Sums a federation up at the end: its sites, its queries, how fair it was, what was said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.fairness import jain
from penstock.federation.messages import SiteStatistics
from penstock.federation.oracle_messages import ListedQuery


@dataclass(frozen=True)
class SiteAccount:
    """Holds what a site said of itself last."""

    site: str
    statistics: SiteStatistics
    report: Mapping[str, Any] | None
    """As ``GET /report`` answers it; None of a site that is gone."""
    why_none: str = ""

    @property
    def queries(self) -> list[dict[str, Any]]:
        """What the site says of the queries that run there, its own and others'."""
        return [] if self.report is None else list(self.report["queries"])

    @property
    def ledger_balanced(self) -> bool:
        """Whether not one tuple is unaccounted for, as far as anybody can tell."""
        return self.report is not None and bool(self.report["ledger_balanced"])


def federation_report(
    accounts: Iterable[SiteAccount], spanning: Iterable[ListedQuery]
) -> dict[str, Any]:
    """Returns the report of ``penstock up``; ``spanning`` are the queries over several sites."""
    told, queries = list(accounts), list(spanning)
    names = {query.query for query in queries}
    rows = [_spanning(query) for query in queries]
    rows += [own for account in told for own in _own_queries(account, names)]
    sic = [row["sic"] for row in rows if row["sic"] is not None]
    return {
        "sites": [_site(account) for account in told],
        "queries": rows,
        "jain": jain(sic) if sic else None,
        "mean_sic": sum(sic) / len(sic) if sic else None,
        "messages": {
            "update_sic": {
                "count": int(sum(query.updates_sent for query in queries)),
                "bytes_max": int(max((query.update_bytes_max for query in queries), default=0)),
            },
            "refused": _sum(account.statistics.refused for account in told),
        },
        "ledger_balanced": bool(told) and all(account.ledger_balanced for account in told),
    }


def _site(account: SiteAccount) -> dict[str, Any]:
    statistics = account.statistics
    return {
        "id": account.site,
        "capacity": statistics.capacity,
        "utilisation": statistics.utilisation,
        "shed": sum(query["shed"] for query in account.queries),
        "latency_ms": statistics.latency_ms,
        "fragments": statistics.fragments_running,
    }


def _spanning(query: ListedQuery) -> dict[str, Any]:
    return {
        "id": query.query,
        "fragments": query.fragments,
        "sites": query.sites,
        "sic": query.sic,
        "sic_now": query.sic_now,
        "rows": int(query.rows),
        "latency_ms": query.latency_ms,
    }


def _own_queries(account: SiteAccount, spanning: set[str]) -> Iterable[dict[str, Any]]:
    """Lists the queries of a site's own file; nobody counts the rows that they deliver."""
    for query in account.queries:
        if query["id"] not in spanning:
            yield {
                "id": query["id"],
                "fragments": 1,
                "sites": [account.site],
                "sic": query["sic"],
                "sic_now": query["sic_now"],
                "rows": None,
                "latency_ms": {rank: query["latency_ms"][rank] for rank in ("p50", "p95", "p99")},
            }


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for reason, number in count.items():
            total[reason] = total.get(reason, 0) + number
    return dict(sorted(total.items()))
