"""Fragments are stopped, moved, doubled and written out, and no window is lost or comes twice."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.federation.ids import fragment_id
from penstock.federation.link import UNFINISHED, DirectoryLinks, LinkName
from penstock.federation.messages import FAILED, RUNNING
from penstock.federation.query_file import FederatedQuery
from penstock.federation.repeating import Repeating
from penstock.federation.site_host import SiteHost
from tests.federation.hosts import TESTER, Hosts, hosts, place_of
from tests.federation.machines import UNION, Machines
from tests.federation.test_federated_queries import rows_in
from tests.spark.support import wait_until

SQL = f"""
    SELECT window.start AS ts, vm, count(*) AS n, sum(cpu) AS cpu
    FROM {UNION} GROUP BY window(ts, '2 seconds'), vm"""


def counting(**more: Any) -> FederatedQuery:
    given = {"query": "count", "sql": SQL, "watermark": 100.0}
    return FederatedQuery.model_validate(
        {**given, "sink": {"format": "parquet", "path": "out"}, **more}
    )


def finish(spark: SparkSession, home: Path, machines: Machines, federation: Hosts) -> None:
    """Lets everything be read, closes the windows, and compares the result."""
    expected = machines.answer(SQL)
    federation.wait_until_all_is_read(home, "count")
    machines.close()
    out = home / "links" / "count" / "out"
    wait_until(lambda: rows_in(spark, out) >= len(expected), 60, "the last windows")
    federation.check()
    found = sorted(spark.read.parquet(str(out)).select("ts", "vm", "n", "cpu").collect())
    assert [(r.ts, r.vm, r.n) for r in found] == [(r.ts, r.vm, r.n) for r in expected]
    assert [r.cpu for r in found] == pytest.approx([r.cpu for r in expected])


def restarted(host: SiteHost) -> SiteHost:
    """Stops a site and starts another from what it has left on disk."""
    host.end()
    again = SiteHost(host.site.spark, host.file, host._document)
    again.begin()
    return again


def test_a_site_that_is_started_again_takes_its_fragments_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    machines = Machines(spark, tmp_path)
    with hosts(spark, tmp_path, machines.sources) as federation:
        federation.submit(counting())
        for site in ("oslo", "rome"):  # a leaf's site, and the root's
            federation.by_name[site] = restarted(federation.by_name[site])
        finish(spark, tmp_path, machines, federation)


def test_a_link_that_cannot_be_written_for_a_while_is_told_at_once_and_loses_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machines = Machines(spark, tmp_path)
    with hosts(spark, tmp_path, machines.sources) as federation, ExitStack() as reviving:
        federation.submit(counting())
        for name, host in federation.by_name.items():
            reviving.enter_context(Repeating(f"revives {name}", 0.5, host.revive))
        link = DirectoryLinks(tmp_path / "links").directory(LinkName("count", "root", "links"))
        wait_until((link / UNFINISHED).exists, 60, "a first batch")
        aside = (link / UNFINISHED).rename(tmp_path / "aside")
        (link / UNFINISHED).touch()  # a file in its place, into which not even root can write
        machines.go_on()
        wait_until(lambda: troubled(federation) == {"rome", "oslo", "kyoto"}, 60, "all to fail")
        assert f"oslo@count: the link {link} cannot be written" in caplog.text
        (link / UNFINISHED).unlink()
        aside.rename(link / UNFINISHED)
        wait_until(lambda: not states(federation) - {RUNNING}, 60, "all to run again")
        finish(spark, tmp_path, machines, federation)


def troubled(federation: Hosts) -> set[str]:
    """The sites whose fragment says that its link cannot be written."""
    return {
        site
        for site, host in federation.by_name.items()
        for status in host.fragments()
        if status.state == FAILED and "cannot be written" in status.trouble
    }


def states(federation: Hosts) -> set[str]:
    return {status.state for host in federation.by_name.values() for status in host.fragments()}


def test_the_root_moves_while_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    machines = Machines(spark, tmp_path)
    with hosts(spark, tmp_path, machines.sources) as federation:
        query = counting()
        _, places = federation.submit(query, root="rome")
        rome, kyoto = federation.by_name["rome"], federation.by_name["kyoto"]
        order = rome.roots()["count"]
        wait_until(lambda: rome.site.streams["root@count"].arrived > 0, 60, "a first batch")
        rome.remove("root@count", TESTER)
        places = {**places, "root": [place_of("kyoto")]}
        kyoto.deploy(order.model_copy(update={"places": places, "incarnation": 1}), TESTER)
        assert "count" not in rome.roots()
        finish(spark, tmp_path, machines, federation)


def test_a_replica_takes_over_without_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    machines = Machines(spark, tmp_path)
    with hosts(spark, tmp_path, machines.sources) as federation:
        federation.submit(counting(replicas={"root": 2}), root=["rome", "kyoto"])
        first = federation.by_name["rome"].site.streams["root@count"]
        wait_until(lambda: first.arrived > 0, 60, "a first batch")
        federation.by_name["rome"].remove(fragment_id("root", "count"), TESTER)
        finish(spark, tmp_path, machines, federation)


def test_copies_of_a_merge_share_the_groups(spark: SparkSession, tmp_path: Path) -> None:
    machines = Machines(spark, tmp_path)
    with hosts(spark, tmp_path, machines.sources) as federation:
        cut, _ = federation.submit(counting(partition={"copies": 2, "by": "vm"}))
        assert {"copy-0", "copy-1"} <= {fragment.name for fragment in cut.fragments}
        finish(spark, tmp_path, machines, federation)
