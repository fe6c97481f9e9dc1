"""What ``penstock up`` says at the end."""

from __future__ import annotations

import pytest

from penstock.federation.federation_report import SiteAccount, federation_report
from penstock.federation.messages import SiteStatistics
from penstock.federation.oracle_messages import ListedQuery

LATENCY = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "measured": True}


def an_account(site: str, *, balanced: bool = True, own_sic: float = 0.5) -> SiteAccount:
    statistics = SiteStatistics(
        capacity=1000, utilisation=0.9, latency_ms=1500, fragments_running=2, refused={"bad-sql": 1}
    )
    queries = [
        {"id": f"{site}-own", "shed": 10, "sic": own_sic, "sic_now": 0.4, "latency_ms": LATENCY},
        {"id": "load", "shed": 5, "sic": 0.1, "sic_now": 0.1, "latency_ms": LATENCY},
    ]
    return SiteAccount(site, statistics, {"queries": queries, "ledger_balanced": balanced})


def a_query(sic: float | None = 0.5, updates: int = 7) -> ListedQuery:
    return ListedQuery(
        query="load",
        site="rome",
        sic=sic,
        sic_now=sic,
        rows=12,
        latency_ms={"p95": 4000.0},
        fragments=3,
        sites=["oslo", "rome"],
        updates_sent=updates,
        update_bytes_max=73,
    )


def test_a_report_has_all_that_is_promised() -> None:
    report = federation_report([an_account("rome"), an_account("oslo")], [a_query()])
    assert report["sites"][0] == {
        "id": "rome",
        "capacity": 1000,
        "utilisation": 0.9,
        "shed": 15,
        "latency_ms": 1500,
        "fragments": 2,
    }
    assert report["queries"][0] == {
        "id": "load",
        "fragments": 3,
        "sites": ["oslo", "rome"],
        "sic": 0.5,
        "sic_now": 0.5,
        "rows": 12,
        "latency_ms": {"p95": 4000.0},
    }
    assert [query["id"] for query in report["queries"][1:]] == ["rome-own", "oslo-own"]
    assert report["messages"] == {
        "update_sic": {"count": 7, "bytes_max": 73},
        "refused": {"bad-sql": 2},
    }
    assert (report["jain"], report["mean_sic"]) == (1.0, 0.5)
    assert report["ledger_balanced"]


def test_fairness_is_over_all_queries_of_which_something_is_known() -> None:
    report = federation_report([an_account("rome", own_sic=1.0)], [a_query(sic=0.5)])
    assert report["mean_sic"] == 0.75
    assert report["jain"] == pytest.approx(1.5**2 / (2 * 1.25))
    assert federation_report([], [a_query(sic=None)])["jain"] is None


def test_a_site_that_is_gone_has_an_account_and_the_ledger_is_not_said_to_balance() -> None:
    gone = SiteAccount("kyoto", SiteStatistics(capacity=3), None)
    report = federation_report([an_account("rome"), gone], [a_query()])
    assert report["sites"][1]["capacity"] == 3
    assert not report["ledger_balanced"]
    assert not federation_report([an_account("rome", balanced=False)], [])["ledger_balanced"]
    assert not federation_report([], [])["ledger_balanced"]
