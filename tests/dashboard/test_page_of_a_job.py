"""The page of one job on Spark: its figures are the report's, and changes are in force at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock import PenstockError, Site
from penstock import functions as sf
from penstock.dashboard.job_page import shown
from penstock.federation.access import LOCAL_CALLER
from tests.federation.support import eventually

TOKEN = "the-token-of-the-owner-0123"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def site(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two queries that run; the page of their site has a token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_TOKEN", TOKEN)
        made = Site(spark, interval="500 milliseconds", latency="20 seconds", dashboard=0)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
    for name in ("fares", "tips a day"):
        gated = made.gate(source, query=name, id="value", strata=F.col("value") % 3)
        writer = gated.groupBy().agg(sf.count("*").alias("n")).writeStream.format("noop")
        folder = str(tmp_path_factory.mktemp(shown(name)) / "checkpoint")
        made.start(writer.outputMode("complete"), name=name, checkpoint=folder)
    yield made
    made.stop()


def ask(site: Site, path: str, **more: Any) -> Any:
    answer = httpx.get(f"{site.dashboard_address}{path}", timeout=30, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def queries(site: Site) -> dict[str, Any]:
    return {query["query"]: query for query in ask(site, "/queries")["queries"]}


def test_the_figures_are_those_of_the_report(site: Site) -> None:
    eventually(lambda: len(queries(site)) == 2, PATIENCE_SECONDS)

    def agrees() -> bool:
        """Batches go on meanwhile, so the report is looked at before and after."""
        before, seen, after = site.report(), queries(site), site.report()
        if before != after:
            return False
        for query in after.queries:
            told = seen[shown(query.id)]
            mine = (query.arrived, query.admitted, query.shed, query.sic_now)
            theirs = tuple(told[name] for name in ("arrived", "admitted", "shed", "sic_now"))
            if mine != theirs or told["latency_ms"]["p95"] != query.latency_ms.p95:
                return False
        return True

    eventually(agrees, PATIENCE_SECONDS)


def test_a_gate_says_what_stands_behind_its_plan(site: Site) -> None:
    (told,) = ask(site, "/sites")
    name = told["site"]
    inside: dict[str, Any] = {}

    def both_are_planned() -> bool:
        inside.update(ask(site, f"/sites/{name}/inside"))
        return [gate["planned"] > 0 for gate in inside["gates"]] == [True, True]

    eventually(both_are_planned, PATIENCE_SECONDS)
    assert inside["policy"] == "balance-sic"
    assert inside["latency_seconds"] == 20.0
    for gate in inside["gates"]:
        assert gate["interval_seconds"] == 0.5
        assert gate["budget_seconds"] == 10.0
        assert 0 < gate["planned"] <= gate["expected"]
        believed = gate["fixed_seconds"] + gate["arriving_seconds"] * gate["expected"]
        believed += gate["admitting_seconds"] * gate["planned"]
        assert gate["believed_seconds"] == pytest.approx(believed)
    strata = [stratum for gate in inside["gates"] for stratum in gate["strata"]]
    assert {stratum["query"] for stratum in strata} == {"fares", "tips a day"}
    assert {stratum["rate"] for stratum in strata} == {1.0}
    assert all(stratum["worth"] > 0 for stratum in strata)


def test_changes_need_the_token_and_are_in_force_at_the_next_batch(site: Site) -> None:
    eventually(lambda: len(queries(site)) == 2, PATIENCE_SECONDS)
    name = ask(site, "/sites")[0]["site"]
    terms, latency = f"{site.dashboard_address}/terms", f"/sites/{name}/latency"
    body = {"query": "fares", "weight": 3.0, "floor": 0.25}
    assert httpx.post(terms, json=body).status_code == 401
    assert site.settings.terms == {}
    assert httpx.post(terms, json=body, headers=OWNER).status_code == 200
    changed = site.settings.terms["fares"]
    assert (changed.weight, changed.floor, changed.ceiling) == (3.0, 0.25, float("inf"))
    assert httpx.post(terms, json={**body, "query": "no"}, headers=OWNER).status_code == 404
    address = f"{site.dashboard_address}{latency}"
    too_short = httpx.post(address, json={"seconds": 0.1}, headers=OWNER)
    assert too_short.status_code == 422
    assert "latency: 0.1 s cannot be held" in too_short.text
    assert httpx.post(address, json={"seconds": 12.0}, headers=OWNER).status_code == 200
    assert site.settings.latency == 12.0
    odd = {"query": "tips-a-day", "ceiling": 0.75}
    assert httpx.post(terms, json=odd, headers=OWNER).status_code == 200
    assert site.settings.terms["tips a day"].ceiling == 0.75
    version = site.plan.version
    eventually(lambda: site.plan.version > version, PATIENCE_SECONDS)
    eventually(lambda: queries(site)["fares"]["weight"] == 3.0, PATIENCE_SECONDS)
    (gate, _) = ask(site, f"/sites/{name}/inside")["gates"]
    assert gate["budget_seconds"] == 6.0


def test_a_port_that_is_taken_is_said_and_no_site_is_left_behind(spark: SparkSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PenstockError, match=f"free to listen on; got 127.0.0.1:{port}"):
            Site(spark, dashboard=port)
    with pytest.raises(PenstockError, match="dashboard must be a port"):
        Site(spark, dashboard="here")
    with pytest.raises(PenstockError, match="PENSTOCK_TOKEN must be set"):
        Site(spark, dashboard="0.0.0.0:0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_TOKEN", "short")
        with pytest.raises(PenstockError, match="16 to 256 characters; got 5"):
            Site(spark, dashboard=0)


def test_without_a_token_the_page_is_for_looking(spark: SparkSession) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PENSTOCK_TOKEN", raising=False)
        with Site(spark, dashboard=0) as looked_at:
            eventually(lambda: ask(looked_at, "/sites"), PATIENCE_SECONDS)
            answer = httpx.post(
                f"{looked_at.dashboard_address}/terms", json={"query": "fares", "weight": 2}
            )
            assert answer.status_code == 403
            assert "a change needs a token" in answer.text
            assert LOCAL_CALLER not in answer.text
            address = looked_at.dashboard_address
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")
