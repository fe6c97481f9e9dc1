"""The page of a job that has more queries than anybody reads, with names of any kind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import httpx

from penstock import policy
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.dashboard.job_page import MOST_QUERIES, JobPage
from penstock.spark.site import Site
from penstock.spark.site_report import CapacityReport, QueryReport, SiteReport
from tests.federation.support import eventually


def a_site(queries: int) -> Site:
    """What a page asks of a site, without a Spark."""
    told = tuple(
        QueryReport(id=f"tenant {n}/x", arrived=10, admitted=10, sic_now=n / queries)
        for n in reversed(range(queries))
    )
    report = SiteReport(told, CapacityReport(1.0, 0.5, 1.0), (), True)
    settings = Settings(policy=policy.get("balance-sic"))
    return cast(Site, SimpleNamespace(report=lambda: report, settings=settings, state=State()))


def test_the_poorest_are_shown() -> None:
    page = JobPage(a_site(MOST_QUERIES + 200), "a job", 0)
    try:
        eventually(lambda: len(httpx.get(f"{page.address}/queries").json()["queries"]) > 0)
        told = httpx.get(f"{page.address}/queries").json()["queries"]
    finally:
        page.close()
    assert len(told) == MOST_QUERIES
    assert [query["query"] for query in told[:2]] == ["tenant-0-x", "tenant-1-x"]
    assert told[-1]["sic_now"] == (MOST_QUERIES - 1) / (MOST_QUERIES + 200)
