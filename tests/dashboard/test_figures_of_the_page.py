"""Every figure that the page shows is in the JSON interface and in Prometheus, and is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from penstock.federation.messages import (
    CountedTuples,
    FragmentStatus,
    Heartbeat,
    QueryStatus,
    SiteStatistics,
)
from penstock.federation.oracle_client import OracleClient
from tests.dashboard.browser import PATIENCE_MS, a_browser, visiting
from tests.dashboard.federations import WatchedOracle
from tests.metrics.samples import Samples, samples

Told = Mapping[str, Any]
LONG_SECONDS = 3600.0
"""Between heartbeats, so that no figure changes meanwhile."""


def a_beat(site: str, number: int) -> Heartbeat:
    """What a site says; no two figures are the same."""
    query = f"{site}-traffic"
    return Heartbeat(
        site=site,
        address=f"http://127.0.0.1:{7100 + number}",
        seq=1,
        interval=LONG_SECONDS,
        statistics=SiteStatistics(
            throughput=700.0 * number + 11,
            dropped=300.0 * number + 7,
            latency_ms=1700.0 * number + 430,
            latency_measured=number == 1,
            latency_target_ms=6000.0,
            average_sic=0.31 * number,
            fragments_running=number,
            fragments_connected=number + 3,
            capacity=900.0 * number + 5,
            utilisation=0.43 * number,
            backlog=1200.0 * number + 34,
        ),
        fragments=[
            FragmentStatus(
                id=f"all@{query}", query=query, fragment="all", arrived=8000, admitted=2970 * number
            )
        ],
        queries=[
            QueryStatus(
                query=query,
                sic=0.28 * number,
                sic_now=0.37 * number,
                rows=13 * number,
                latency_ms={"p50": 900.0 * number, "p95": 1640.0 * number, "p99": 2100.0 * number},
                latency_measured=number == 1,
                fragments=1,
                sites=[site],
                weight=1.5 * number,
                floor=0.16 * number,
                ceiling=0.9,
            )
        ],
        counted={query: CountedTuples(tuples=5000, variance=90_000.0 * number)},
    )


def share(value: float) -> str:
    return f"{100 * value:.0f} %"


def seconds(milliseconds: float, measured: bool = True) -> str:
    return f"{milliseconds / 1000:.1f} s" + ("" if measured else " *")


QUERY_COLUMNS: dict[str, Callable[[Told], str]] = {
    "SIC": lambda told: f"{told['sic_now']:.2f}",
    "Mean SIC": lambda told: f"{told['sic']:.2f}",
    "Admitted": lambda told: f"{told['admitted']:,.0f}",
    "Shed": lambda told: share(told["shed"] / told["arrived"]),
    "Latency p95": lambda told: seconds(told["latency_ms"]["p95"], told["latency_measured"]),
    "Count ±": lambda told: f"{100 * told['interval_width']:.1f} %",
    "Weight": lambda told: f"{told['weight']:g}",
    "Floor": lambda told: f"{told['floor']:.2f}",
}
SITE_COLUMNS: dict[str, Callable[[Told], str]] = {
    "Busy": lambda told: share(told["utilisation"]),
    "Admits/s": lambda told: f"{told['throughput']:,.0f}",
    "Shed": lambda told: share(told["dropped"] / (told["dropped"] + told["throughput"])),
    "Latency p95": lambda told: (
        f"{seconds(told['latency_ms'], told['latency_measured'])} of "
        f"{told['latency_target_ms'] / 1000:g} s"
    ),
    "Backlog": lambda told: f"{told['backlog']:,.0f}",
    "SIC": lambda told: f"{told['average_sic']:.2f}",
    "Fragments": lambda told: f"{told['fragments_running']}",
    "Refused": lambda told: f"{sum(told['refused'].values())}",
}
NO_FIGURES = ("Query", "Site", "Of late")
"""Names, and the line of what the SIC was."""
QUERY_METRICS = {
    "sic_now_ratio": "sic_now",
    "sic_mean_ratio": "sic",
    "arrived_tuples_total": "arrived",
    "admitted_tuples_total": "admitted",
    "shed_tuples_total": "shed",
    "latency_measured": "latency_measured",
    "interval_width_ratio": "interval_width",
    "weight": "weight",
    "floor_ratio": "floor",
    "ceiling_ratio": "ceiling",
    "rows_total": "rows",
}
SITE_METRICS = {
    "utilisation_ratio": "utilisation",
    "throughput_tuples_per_second": "throughput",
    "dropped_tuples_per_second": "dropped",
    "latency_measured": "latency_measured",
    "backlog_tuples": "backlog",
    "sic_ratio": "average_sic",
    "fragments_running": "fragments_running",
    "capacity_tuples_per_second": "capacity",
}


def test_the_page_the_json_and_prometheus_have_the_same_figures(tmp_path: Path) -> None:
    oracle = WatchedOracle(tmp_path)
    oracle.start()
    try:
        with closing(OracleClient(oracle.address)) as client:
            for number, site in enumerate(("rome", "oslo"), start=1):
                client.heartbeat(a_beat(site, number))
        answer = httpx.get(f"{oracle.address}/queries").json()
        queries = {told["query"]: told for told in answer["queries"]}
        sites = {
            told["site"]: told["statistics"] for told in httpx.get(oracle.address + "/sites").json()
        }
        metrics = samples(httpx.get(f"{oracle.address}/metrics").text)
        with a_browser() as browser, visiting(browser, oracle.address) as visit:
            expect(visit.page.locator("#query-list tbody tr")).to_have_count(2, timeout=PATIENCE_MS)
            of_queries = shown(visit.page, "#query-list")
            of_sites = shown(visit.page, "#site-list")
            tiles = visit.page.locator("#tiles dd b").all_inner_texts()
    finally:
        oracle.stop()
    assert of_queries == wanted(queries, QUERY_COLUMNS)
    assert of_sites == wanted(sites, SITE_COLUMNS)
    admitted, shed = (
        sum(told[name] for told in sites.values()) for name in ("throughput", "dropped")
    )
    fairness = [f"{answer[name]:.2f}" for name in ("mean_sic", "jain")]
    assert tiles == ["2", "2", *fairness, f"{admitted:,.0f}", f"{shed:,.0f}"]
    collected(metrics, "query", queries, QUERY_METRICS)
    collected(metrics, "site", sites, SITE_METRICS)
    assert metrics["penstock_oracle_jain_index", ()] == pytest.approx(answer["jain"])
    assert metrics["penstock_oracle_sic_ratio", ()] == pytest.approx(answer["mean_sic"])


def shown(page: Page, place: str) -> dict[str, dict[str, str]]:
    """What a table of the page says, by name and title."""
    titles = page.locator(f"{place} thead th").all_inner_texts()
    found = {}
    for row in page.locator(f"{place} tbody tr").all():
        cells = [" ".join(text.split()) for text in row.locator("th, td").all_inner_texts()]
        told = dict(zip((title.strip(" ↑↓") for title in titles), cells, strict=True))
        name = cells[0].partition(" ")[0]
        found[name] = {title: text for title, text in told.items() if title not in NO_FIGURES}
    return found


def wanted(
    told: Mapping[str, Told], columns: Mapping[str, Callable[[Told], str]]
) -> dict[str, dict[str, str]]:
    return {
        name: {title: write(one) for title, write in columns.items()} for name, one in told.items()
    }


def collected(
    found: Samples, kind: str, told: Mapping[str, Told], names: Mapping[str, str]
) -> None:
    for name, one in told.items():
        prefix, label = f"penstock_oracle_{kind}_", ((kind, name),)
        for metric, path in names.items():
            assert found[prefix + metric, label] == pytest.approx(float(one[path])), (metric, name)
