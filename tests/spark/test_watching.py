"""Watch mode: results are the plain job's, and what it tells is what shedding would do."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock import Concept, Site, replay
from penstock import functions as pf
from penstock.core.controller import Controller
from penstock.core.settings import QueryTerms, Settings
from penstock.core.state import State
from penstock.core.types import Plan, Report, Stratum
from penstock.errors import PenstockError
from penstock.policy import get
from penstock.policy.balance_sic import BalanceSic
from penstock.spark.query import BatchLatency
from penstock.spark.site import concept_controller
from penstock.spark.site_report import LatencyReport
from penstock.spark.watching import Watching, opened, rates_of
from penstock.testing import Cost, Plant, Rates, Run
from tests.spark.support import file_stream, plan, wait_until, write_batches

QUERIES: Rates = {
    Stratum(f"q{i}", f"s{j}"): 1_000.0 * (i + 1) * (1 + j) for i in range(3) for j in range(2)
}
"""18,000 tuples a second."""
SETTINGS = Settings(policy=BalanceSic(), latency=3.0)
CALM_SECONDS, SECONDS = 15.0, 120.0
FIXED_SECONDS = 0.2


@dataclass(frozen=True)
class Watched(Controller):
    """A controller that only watches."""

    watching: Watching = field(default_factory=Watching)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        return self.watching.step(Controller(self.settings), state, report)


def _watched(plant: Plant) -> tuple[list[Run], Watching]:
    """What is told of the batches that began within two minutes, however long each takes."""
    most = 2
    while (trial := plant.run(Watched(SETTINGS), most))[-1].started <= SECONDS:
        most *= 2
    batches = sum(run.started <= SECONDS for run in trial)
    controller = Watched(SETTINGS)
    # the last batch is not reported any more
    return plant.run(controller, batches + 1)[:-1], controller.watching


def _plant(overload: float, noise: float) -> Plant:
    """A calm in which all is learnt, then so many times what a batch has time for."""
    budget = SETTINGS.budget_of("plant")
    planned = SETTINGS.headroom * budget - FIXED_SECONDS
    each = overload * planned / (budget * sum(QUERIES.values()))
    calm = {stratum: 0.2 / overload * rate for stratum, rate in QUERIES.items()}
    return Plant(
        lambda now: calm if now < CALM_SECONDS else QUERIES,
        Cost(FIXED_SECONDS, 0.1 * each, 0.9 * each),
        noise=noise,
    )


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("overload", [0.5, 1.3, 2.0, 4.0, 8.0])
def test_what_it_would_shed_is_what_a_like_run_sheds(overload: float, noise: float) -> None:
    """Within 10 %, or two hundredths of what arrives; query by query."""
    plant = _plant(overload, noise)
    runs = plant.run(Controller(SETTINGS), 200)
    shedding = [run for run in runs if run.started <= SECONDS]
    watched, watching = _watched(plant)
    assert all(run.admitted == run.arrived for run in watched)
    for query in ("q0", "q1", "q2"):
        arrived, admitted = _of(shedding, query)
        shed = 1 - admitted / arrived
        told = watching.would_shed[query] / _of(watched, query)[0]
        assert told == pytest.approx(shed, rel=0.1, abs=0.02)
    if overload <= 2.0:  # else the backlog of the first batches is the 95th percentile
        latencies = [BatchLatency(run.waited, run.seconds, run.admitted) for run in shedding]
        told = LatencyReport.of(watching.would_latencies["plant"]).p95
        assert told == pytest.approx(LatencyReport.of(latencies).p95, rel=0.1)


@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("overload", [1.3, 4.0])
def test_what_it_would_shed_behind_a_read_limit_is_what_a_like_run_sheds(
    overload: float, share: float
) -> None:
    """The job that watches reads little while it is behind; one that sheds would read on.

    The limit is this share of what arrives in an interval.
    """
    plant = replace(_plant(overload, 0.0), limit=round(share * sum(QUERIES.values())))
    shedding = [run for run in plant.run(Controller(SETTINGS), 200) if run.started <= SECONDS]
    watched, watching = _watched(plant)
    assert all(run.admitted == run.arrived for run in watched)
    for query in ("q0", "q1", "q2"):
        arrived, admitted = _of(shedding, query)
        told = watching.would_shed[query] / _of(watched, query)[0]
        assert told == pytest.approx(1 - admitted / arrived, rel=0.1, abs=0.02)


def _of(runs: list[Run], query: str) -> tuple[int, int]:
    counts = [count for run in runs for s, count in run.counts.items() if s.query == query]
    return sum(count.arrived for count in counts), sum(count.admitted for count in counts)


def test_the_account_goes_on_as_if_it_shed() -> None:
    """Fairness is between what would have been admitted; what really passed is told apart."""
    controller = Watched(SETTINGS)
    _plant(4.0, 0.0).run(controller, 18)
    passed = controller.watching.passed
    assert passed is not None
    assert set(passed.sic().values()) == {1.0}
    would = [controller.watching.would_shed[query] for query in ("q0", "q1", "q2")]
    assert np.divide(would, would[0]) == pytest.approx([1, 2, 3], rel=0.02)  # as much of each


def test_a_plan_that_is_opened_admits_all() -> None:
    some = {Stratum("q", "s", "a"): 0.25, Stratum("q", "s", "b"): 0.5}
    shut = plan(3, some, default=0.1)
    asked = opened(shut).strata
    assert opened(shut).open
    assert rates_of(shut, asked).tolist() == [0.25, 0.5]
    assert rates_of(shut, plan(1, {Stratum("q", "s", "new"): 1.0}).strata).tolist() == [0.1]


def test_a_concept_is_watched_too() -> None:
    """What a window would lack, group by group, is known from one batch to the next."""
    terms = {"q": QueryTerms(concept=Concept("10s", keep=0.2))}
    settings = Settings(policy=get("concept"), terms=terms)

    @dataclass(frozen=True)
    class Keeping(Controller):
        watching: Watching = field(default_factory=Watching)

        def step(self, state: State, report: Report) -> tuple[State, Plan]:
            return self.watching.step(concept_controller(settings), state, report)

    controller = Keeping(settings, windows=concept_controller(settings).windows)
    rates = {Stratum("q", "s", str(group)): 1000.0 for group in range(4)}
    runs = Plant(rates, Cost(0.1, 1e-7, 1e-6)).run(controller, 40)
    assert all(run.admitted == run.arrived for run in runs)
    shed = controller.watching.would_shed["q"] / sum(run.arrived for run in runs[:-1])
    assert shed == pytest.approx(0.8, abs=0.1)


# --- on Spark -------------------------------------------------------------------------------------

RATE, STREAM_SECONDS = 5_000, 2


def _rides(spark: SparkSession) -> DataFrame:
    """Readings for two seconds, and then no more."""
    profile = [{"at": 0, "factor": 1}, {"at": STREAM_SECONDS, "factor": 0}]
    return replay(spark, generator="readings", rate=RATE, keys=20, profile=profile)


def _job(stream: DataFrame, functions: Any, *more: Column) -> DataFrame:
    costly = sf.length(sf.sha2(sf.repeat("payload", 1500), 512))
    counts = (functions.count("*").alias("count"), functions.sum(costly).alias("cost"))
    return stream.groupBy("key").agg(*counts, sf.max("_offset").alias("last"), *more)


def _whole(query: StreamingQuery) -> bool:
    return sum(each.numInputRows for each in query.recentProgress) >= RATE * STREAM_SECONDS


def test_results_are_those_of_the_plain_job_under_overload(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    rides = _rides(spark)
    writer = _job(rides, sf).writeStream.format("memory").outputMode("complete")
    plain = writer.queryName("watch_plain").start()
    wait_until(lambda: _whole(plain), 120, "the plain job")
    plain.stop()
    with (
        caplog.at_level(logging.WARNING, "penstock"),
        Site(spark, interval="300ms", latency="600ms", watch=True) as site,
    ):
        gated = _rides(spark).transform(site.gate, query="q", strata="key")
        watched = _job(gated, pf, sf.max("_weight").alias("weight"), pf.sic())
        result = watched.writeStream.format("memory").outputMode("complete")
        query = site.start(result, name="watched")
        wait_until(lambda: _whole(query), 120, "the watched job")
        # The site may hear of a batch a moment after this program does.
        everything = RATE * STREAM_SECONDS
        wait_until(lambda: site.report()["q"].arrived >= everything, 60, "the last batch's news")
        wait_until(lambda: site.report()["q"].would_shed, 60, "something that would be shed")
        assert site.plan.open
        assert site.sic() in ({"q": 1.0}, {})  # a batch may last for longer than an STW
        report = site.report()
    found = spark.table("watched")
    assert {(row["weight"], row["sic"]) for row in found.collect()} == {(1.0, 1.0)}
    rows = sorted(map(tuple, spark.table("watch_plain").collect()))
    assert sorted(map(tuple, found.drop("weight", "sic").collect())) == rows
    entry = report["q"]
    assert report.watch
    assert report.to_dict()["watch"]
    assert (entry.arrived, entry.admitted, entry.shed) == (everything, everything, 0)
    assert entry.sic == 1.0
    assert entry.would_shed is not None
    assert 0 < entry.would_shed < everything
    assert entry.would_latency_ms is not None
    assert entry.would_latency_ms > 0
    assert report.ledger_balanced
    assert sum("it sheds nothing" in message for message in caplog.messages) == 1


def test_a_guard_of_a_site_that_watches_sheds_nothing(spark: SparkSession, tmp_path: Any) -> None:
    stream = file_stream(spark, write_batches(tmp_path, [{"kind": ["a"] * 40}]))
    long_ago = stream.withColumn("at", sf.lit("2001-01-01").cast("timestamp"))
    with Site(spark, interval="200ms", watch=True) as site:
        guarded = site.guard(long_ago, lambda _: 1.0, key="kind", wait="1ms", arrival="at")
        query = guarded.writeStream.format("memory").queryName("watch_guard")
        assert query.trigger(availableNow=True).start().awaitTermination(60)
        assert spark.table("watch_guard").count() == 40
        assert site.report().guards[0]["shed"] == 0


def test_a_site_that_sheds_says_nothing_of_what_would_be(spark: SparkSession) -> None:
    with pytest.raises(PenstockError, match=r"^watch must be True or False; got 'yes'$"):
        Site(spark, watch="yes")  # type: ignore[arg-type]
    with Site(spark) as site:
        assert not site.report().watch
