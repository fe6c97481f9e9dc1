"""A real Prometheus scrapes a real site and a real oracle, and has the figures of their reports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from pyspark.sql import SparkSession

from penstock import Site
from penstock import functions as sf
from penstock.core.types import Batch
from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.history import History
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_server import oracle_app
from penstock.federation.serving import ServedApp
from tests.federation.test_oracle import a_beat
from tests.metrics.prometheus import Prometheus, promtool, scraping
from tests.metrics.samples import samples
from tests.spark.support import wait_until

BOARD = Path(__file__).parent.parent.parent / "examples" / "monitoring" / "grafana.json"
TOKEN = "the-token-of-prometheus-0123"
NAME = re.compile(r"\b(?:penstock|process)_[a-z_]+")


def read(address: str, token: str | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urlopen(Request(address, headers=headers), timeout=30) as answer:
        return str(answer.read().decode())


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[ServedApp]:
    """An oracle that has heard of a site with two queries."""
    access = Access({"prometheus": TOKEN, "rome": "token-of-rome-0123456789"}, "127.0.0.1")
    known = Oracle()
    with (
        closing(History(tmp_path / "history.sqlite")) as history,
        ServedApp(oracle_app(known, history, access), access.refusals) as server,
        closing(OracleClient(server.address, "token-of-rome-0123456789")) as client,
    ):
        figures = {"throughput": 700.0, "dropped": 300.0, "latency_ms": 1500.0}
        beat = a_beat("rome", {"load": 0.5, "busy": 0.25}, **figures)
        client.heartbeat(beat.model_copy(update={"interval": 3600.0}))
        yield server


class Remembering:
    """A meter of one's own."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.plans: list[float] = []

    def counted(self, batch: Batch, ages: Any, measured: int) -> None:
        assert measured == 0 == len(ages), "the source does not tell when tuples arrived"
        self.batches.append(batch.number)
        raise RuntimeError("what it does wrong harms nothing")

    def planned(self, stream: str, seconds: float) -> None:
        assert stream == "fares"
        self.plans.append(seconds)


def run_batches(spark: SparkSession, site: Site, batches: int) -> None:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
    counted = source.transform(site.gate, query="fares", id="value").agg(sf.count("*").alias("n"))
    writer = counted.writeStream.format("noop").outputMode("complete")
    query = site.start(writer, name="fares")
    wait_until(lambda: query.exception() or len(query.recentProgress) >= batches)
    query.stop()
    assert query.exception() is None


def test_prometheus_has_the_figures_of_a_site_and_of_an_oracle(
    spark: SparkSession, tmp_path: Path, oracle: ServedApp
) -> None:
    asked: dict[str, Any] = {"interval": "100ms", "latency": "10s", "rehearse": False}
    with Site(spark, **asked, stw="1 hour", metrics=0) as site:  # what it knows now, it knows later
        run_batches(spark, site, 3)
        assert site.metrics_address is not None
        report = site.report().to_dict()
        text = read(site.metrics_address)
        assert samples(text)["penstock_query_arrived_tuples_total", (("query", "fares"),)] > 0
        done = promtool("check", "metrics", given=text)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
        targets = {
            "site": site.metrics_address.removeprefix("http://").removesuffix("/metrics"),
            "oracle": oracle.address.removeprefix("http://"),
        }
        with scraping(tmp_path, targets, {"oracle": TOKEN}) as prometheus:
            check_site(prometheus, report)
            check_oracle(prometheus)
            check_board(prometheus)
    with pytest.raises(OSError, match="refused"):
        read(f"http://{targets['site']}/metrics")


def check_site(prometheus: Prometheus, report: dict[str, Any]) -> None:
    prometheus.wait_for('up{job="site"} == 1')
    (query,) = report["queries"]
    for name, value in {
        "penstock_query_arrived_tuples_total": query["arrived"],
        "penstock_query_admitted_tuples_total": query["admitted"],
        "penstock_query_shed_tuples_total": query["shed"],
        "penstock_query_batches_total": query["batches"],
        "penstock_query_sic_mean_ratio": query["sic"],
        "penstock_query_weight": 1.0,
    }.items():
        assert prometheus.values(name, "query") == {"fares": pytest.approx(value)}, name
    batches = prometheus.values("penstock_batch_duration_seconds_count", "stream")
    assert batches == {"fares": query["batches"]}
    assert prometheus.values("penstock_plan_duration_seconds_count", "stream")["fares"] >= 3
    late = prometheus.values("penstock_query_latency_seconds", "percentile")
    assert late == {
        rank: pytest.approx(query["latency_ms"][f"p{rank}"] / 1000) for rank in ("50", "95", "99")
    }
    assert prometheus.values("penstock_site_ledger_balanced", "x") == {"": 1.0}


def check_oracle(prometheus: Prometheus) -> None:
    prometheus.wait_for('up{job="oracle"} == 1')
    assert prometheus.values("penstock_oracle_query_sic_now_ratio", "query") == {
        "load": 0.5,
        "busy": 0.25,
    }
    site = "penstock_oracle_site_"
    assert prometheus.values(f"{site}throughput_tuples_per_second", "site") == {"rome": 700.0}
    assert prometheus.values(f"{site}latency_seconds", "site") == {"rome": 1.5}
    assert prometheus.values("penstock_oracle_sic_ratio", "x") == {"": 0.375}


def check_board(prometheus: Prometheus) -> None:
    """Every expression of the board is PromQL, and every metric in it is there but for guards'."""
    board = json.loads(BOARD.read_text())
    expressions = [
        target["expr"] for panel in board["panels"] for target in panel.get("targets", ())
    ]
    assert len(expressions) > 20
    for expression in expressions:
        prometheus.query(expression.replace("$instance", ".*"))
        for name in NAME.findall(expression):
            if not name.startswith("penstock_guard_") and name not in NOT_IN_THIS_JOB:
                assert prometheus.query(name), f"{expression}: there is no {name}"


NOT_IN_THIS_JOB = ("penstock_query_backlog_tuples", "penstock_tuple_latency_seconds_bucket")
"""Its source tells neither what waits nor when tuples arrived."""


def test_a_meter_of_ones_own_hears_of_every_batch(spark: SparkSession) -> None:
    meter = Remembering()
    with Site(spark, interval="100ms", latency="10s", metrics=meter, rehearse=False) as site:
        run_batches(spark, site, 3)
        assert site.metrics_address is None
    report = site.report()
    assert len(meter.batches) == report["fares"].batches >= 3
    assert report.ledger_balanced
    assert len(meter.plans) >= 3
    assert all(0 < seconds < 60 for seconds in meter.plans)


def test_a_port_that_is_taken_is_told(spark: SparkSession, oracle: ServedApp) -> None:
    with pytest.raises(PenstockError, match=f"metrics must be a port that is free .*{oracle.port}"):
        Site(spark, metrics=oracle.port)
    wrong: Any = 0.5
    with pytest.raises(PenstockError, match="metrics must be a port, such as 9464, or an object"):
        Site(spark, metrics=wrong)


def test_the_oracle_tells_its_figures_to_those_with_a_token(oracle: ServedApp) -> None:
    text = read(f"{oracle.address}/metrics", TOKEN)
    done = promtool("check", "metrics", given=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    with pytest.raises(HTTPError, match="401"):
        read(f"{oracle.address}/metrics")
