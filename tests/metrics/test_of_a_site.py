"""The metrics of a federation's site, at the port that it has anyway."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from penstock.federation.access import Access
from penstock.federation.messages import SiteStatistics
from penstock.federation.serving import ServedApp
from penstock.federation.site_process import measured
from penstock.federation.site_server import site_app
from penstock.metrics.distributions import Distributions
from penstock.metrics.told import SiteTold
from tests.federation.support import SiteInMemory
from tests.metrics.prometheus import promtool
from tests.metrics.samples import a_report, samples

TOKEN = {"Authorization": "Bearer the-token-of-prometheus-0123"}


@dataclass
class HostInMemory:
    """What a site's metrics are made of, without Spark."""

    distributions: Distributions = field(default_factory=Distributions)

    def told(self) -> SiteTold:
        statistics = SiteStatistics(throughput=700.0, dropped=300.0, fragments_running=3)
        asked = {"interval": 5, "latency": 15, "stw": 50}
        return SiteTold(a_report("load"), asked, {}, statistics.model_dump())


def served() -> ServedApp:
    access = Access({"prometheus": TOKEN["Authorization"].removeprefix("Bearer ")}, "127.0.0.1")
    host: Any = HostInMemory()
    host.distributions.planned("root@load", 0.004)
    return ServedApp(
        site_app(SiteInMemory(), access, None, measured(host, access)), access.refusals
    )


def test_a_site_tells_its_report_its_statistics_and_what_it_refused() -> None:
    with served() as server:
        assert httpx.get(f"{server.address}/metrics").status_code == 401
        answer = httpx.get(f"{server.address}/metrics", headers=TOKEN)
    assert answer.headers["content-type"].startswith("text/plain")
    found = samples(answer.text)
    assert found["penstock_site_throughput_tuples_per_second", ()] == 700.0
    assert found["penstock_site_fragments_running", ()] == 3.0
    assert found["penstock_site_capacity_tuples_per_second", ()] == 1234.5, "the report's, once"
    assert found["penstock_refused_requests_total", (("reason", "bad-token"),)] == 1.0
    assert found["penstock_plan_duration_seconds_count", (("stream", "root@load"),)] == 1.0
    done = promtool("check", "metrics", given=answer.text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_without_the_extra_the_endpoint_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.metrics.exposition", None)
    with served() as server:
        answer = httpx.get(f"{server.address}/metrics", headers=TOKEN)
        assert httpx.get(f"{server.address}/statistics", headers=TOKEN).status_code == 200
    assert answer.status_code == 422
    assert "pip install 'penstock[metrics]'" in answer.json()["error"]
