"""Reports to make metrics of, and what came of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from penstock.metrics.distributions import Distributions
from penstock.metrics.exposition import Exposition
from penstock.metrics.site_collector import SiteCollector
from penstock.metrics.told import SiteTold
from penstock.spark.site_report import CapacityReport, LatencyReport, QueryReport, SiteReport

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def a_report(*queries: str, guards: int = 0, watch: bool = False) -> dict[str, Any]:
    """A report in which no two figures are the same."""
    told = [
        QueryReport(
            id=query,
            arrived=1000 * n + 3,
            admitted=600 * n + 2,
            shed=400 * n + 1,
            lost_in_guards=5 * n,
            sic=1 / (n + 1),
            sic_now=1 / (n + 2),
            latency_ms=LatencyReport(100.0 * n, 200.0 * n, 300.0 * n, True),
            batches=n,
            backlog=7 * n,
            held_back_by="maxOffsetsPerTrigger",
            let_in_per_second=9.0 * n,
            arriving_per_second=11.0 * n,
            would_shed=13 * n if watch else None,
            would_latency_ms=17.0 * n if watch else None,
        )
        for n, query in enumerate(queries, start=1)
    ]
    report = SiteReport(tuple(told), CapacityReport(1234.5, 0.75, 0.875), (), True, watch)
    made = [
        {
            "guard": f"penstock_guard_{n}",
            "function": "score",
            **dict.fromkeys(("arrived", "kept", "shed", "failed"), n),
            **dict.fromkeys(("shed_share", "recent_shed_share"), 0.5),
            **dict.fromkeys(("mean_wait_ms", "mean_cost_ms", "wait_ms", "recent_wait_ms"), 1.0),
            "last_error": None,
        }
        for n in range(guards)
    ]
    return {**report.to_dict(), "guards": made, "site": asdict(report.site)}


def exposed(
    told: SiteTold | None = None,
    distributions: Distributions | None = None,
    collector: SiteCollector | None = None,
) -> str:
    """What Prometheus reads."""
    if collector is None:
        assert told is not None
        collector = SiteCollector(lambda: told, distributions)
    return Exposition(collector).written(None)[0].decode()


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("penstock_")
    }
