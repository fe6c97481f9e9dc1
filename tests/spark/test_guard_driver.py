"""The driver's part of a guard: limits, trials, reports, and the server that hands out plans."""

from __future__ import annotations

import socket
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.core.types import Count, Stratum
from penstock.errors import PenstockError
from penstock.guard.guard_plan import GuardPlan, decode_plan, encode_plan
from penstock.guard.plan_server import PlanClient, PlanServer
from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.guard_arguments import port
from penstock.spark.guard_driver import Guard, GuardNews
from penstock.spark.guards import _take_off

RETRY_SECONDS = 0.9
"""Just less than the system waits before it asks again for whom a full queue turned away."""
MOST_TRIES = 5
"""Of which a busy machine may disturb some."""


@pytest.mark.parametrize("gone", [0.4, 0.6])
@pytest.mark.usefixtures("spark")
def test_many_small_strata_lose_as_much_as_one_large(gone: float) -> None:
    gate = Gate("g", Keys("q", "s", (sf.lit("k"),), ()), 10_000)
    counts = {Stratum("q", "s", str(number)): Count(1, 1) for number in range(1000)}
    counts[Stratum("other", "s")] = Count(50, 50)
    _take_off(counts, GuardNews(arrived=500, gone=round(500 * gone)), [gate])
    assert counts.pop(Stratum("other", "s")) == Count(50, 50)
    assert sum(count.admitted for count in counts.values()) == round(1000 * (1 - gone))


def test_tasks_side_by_side_share_the_limit_and_a_single_one_has_it_to_itself(
    spark: SparkSession,
) -> None:
    """On a site of 8 cores, whatever the number of partitions."""
    guard = Guard(spark, "shares", 1.0, 8)
    guard.plan = GuardPlan(1.0, 3.0, Sketch(0.01))
    moved = -0.4
    running: list[int] = []
    for begin, end, limit in (
        (1, 1, 3.0 + moved),
        (4, 1, 2.6 + moved / 4),
        (0, 3, 2.5 + 3 * moved / 4),  # heard of later, and still of the same four
        (1, 1, 2.2 + moved),
    ):
        running += [decode_plan(guard.next_plan())[0] for _ in range(begin)]
        report = TaskReport(Sketch(0.01), admitted=1, moved=moved)
        guard.reports.add(deque((running.pop(), report) for _ in range(end)))
        guard.report()
        assert guard.plan.limit == pytest.approx(limit)


def test_tasks_that_died_do_not_share_the_limit_for_ever(spark: SparkSession) -> None:
    guard = Guard(spark, "dead", 1.0, 4)
    guard.plan = GuardPlan(1.0, 3.0, Sketch(0.01))
    for _ in range(3):
        guard.next_plan()  # of whom nobody hears again
    for _ in range(40):
        before = guard.plan.limit
        ticket, _ = decode_plan(guard.next_plan())
        guard.reports.add(deque([(ticket, TaskReport(Sketch(0.01), admitted=1, moved=-0.01))]))
        guard.report()
    assert guard.plan.limit == pytest.approx(before - 0.01)


def test_what_is_not_recent_is_forgotten_also_where_nobody_asks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, now = Guard(spark, "recent", 1.0, 2), 0.0
    monkeypatch.setattr("penstock.spark.guard_driver.time.monotonic", lambda: now)
    for _ in range(100):
        now += 10.0
        guard._count(TaskReport(Sketch(0.01), admitted=3, shed=1, waited=0.6))
    assert len(guard._recent) <= 4
    report = guard.report()
    assert report["recent_wait_ms"] == pytest.approx(200.0)
    assert report["recent_shed_share"] == 0.25
    now += 100.0
    assert guard.report()["recent_shed_share"] == 0.0


def test_a_task_that_is_run_again_counts_once(spark: SparkSession) -> None:
    """Spark adds up the reports of both, where the first one's rows were lost with its executor."""
    guard = Guard(spark, "again", 1.0, 2)
    first = TaskReport(Sketch(0.01), admitted=5, shed=2, failed=1, waited=1.0, part=(7, 0))
    more = TaskReport(Sketch(0.01), admitted=1, part=(7, 0))  # of the same task
    first.seen, first.lost = {11: 8}, {11: 3}
    other = TaskReport(Sketch(0.01), admitted=4, seen={11: 4}, part=(7, 1))
    again = TaskReport(Sketch(0.01), admitted=6, shed=2, waited=2.0, part=(7, 0), attempt=9)
    again.seen, again.lost = {11: 8}, {11: 2}
    guard.reports.add(deque((ticket, each) for ticket, each in enumerate((first, more, other))))
    assert guard.report()["arrived"] == 13
    guard.reports.add(deque([(3, again)]))
    told = guard.report()
    assert [told[name] for name in ("arrived", "kept", "shed", "failed")] == [12, 10, 2, 0]
    assert told["mean_wait_ms"] == pytest.approx(200.0)
    news = guard.take_news()
    assert (news.arrived, news.gone, news.seen, news.lost) == (12, 2, {11: 12}, {11: 2})
    guard.reports.add(deque([(4, again)]))  # of the next batch, whatever its number
    assert guard.take_news().arrived == 8


def test_trials_come_once_in_a_wait_and_take_a_tenth_of_the_time(spark: SparkSession) -> None:
    guard = Guard(spark, "trials", 2.0, 2)
    places = [guard._take_trial(now) for now in (0.0, 1.0, 1.9, 2.0, 3.0, 4.0)]
    assert [place >= 0.0 for place in places] == [True, False, False, True, False, True]
    assert all(place < 1.0 for place in places)
    guard.plan.sketch.add(1, 0.5)  # a tuple takes half a second: one in five
    assert [guard._take_trial(now) >= 0.0 for now in (6.0, 8.9, 9.0)] == [False, False, True]
    assert [decode_plan(guard.next_plan())[1].trial >= 0.0 for _ in range(2)] == [True, False]


def test_a_plan_survives_the_way() -> None:
    sketch = Sketch(seed=4)
    sketch.add(17, 0.25)
    ticket, again = decode_plan(encode_plan(7, GuardPlan(0.1, 0.2, sketch, trial=0.3)))
    assert ticket == 7
    assert (again.threshold, again.limit, again.trial) == (0.1, 0.2, 0.3)
    assert again.sketch.cost(17) == 0.25


def test_the_plan_server_answers_those_who_know_the_token() -> None:
    server = PlanServer("127.0.0.1", "127.0.0.1")
    try:
        client = server.serve("guard", lambda: b"plan")
        assert client.fetch() == b"plan"
        stranger = PlanClient(client.host, client.port, b"x" * 32, "guard")
        with pytest.raises(ConnectionError):
            stranger.fetch()
        nobody = PlanClient(client.host, client.port, client.token, "another")
        with pytest.raises(ConnectionError):
            nobody.fetch()
    finally:
        server.close()
    with pytest.raises(ConnectionError, match=r"guard: nobody answers .* its site has stopped"):
        client.fetch()


def test_the_plan_server_listens_where_a_firewall_lets_it() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = PlanServer("127.0.0.1", "127.0.0.1", port)
    try:
        assert server.serve("guard", lambda: b"plan").port == port
        with pytest.raises(PenstockError, match=f"127.0.0.1:{port} cannot be had"):
            PlanServer("127.0.0.1", "127.0.0.1", port)
    finally:
        server.close()


def test_the_port_of_the_plan_server_is_a_setting(spark: SparkSession) -> None:
    assert port(spark) == 0
    for told in ("many", "70000"):
        conf = SparkConf(loadDefaults=False).set("spark.penstock.port", told)
        given = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda conf=conf: conf))
        with pytest.raises(PenstockError, match=f"must be a port, such as 7300; got '{told}'"):
            port(cast(SparkSession, given))
    conf = SparkConf(loadDefaults=False).set("spark.penstock.port", "7300")
    given = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    assert port(cast(SparkSession, given)) == 7300


def test_the_plan_server_answers_hundreds_that_come_together() -> None:
    """Tasks of a large cluster do. Who is turned away tries again after a second."""
    server = PlanServer("127.0.0.1", "127.0.0.1")
    try:
        client = server.serve("guard", lambda: b"plan" * 1000)
        took = [RETRY_SECONDS]
        while min(took) >= RETRY_SECONDS and len(took) <= MOST_TRIES:
            began = time.perf_counter()
            with ThreadPoolExecutor(200) as pool:
                answers = list(pool.map(lambda _: client.fetch(), range(200)))
            took.append(time.perf_counter() - began)
            assert set(answers) == {b"plan" * 1000}
        assert min(took) < RETRY_SECONDS
    finally:
        server.close()
