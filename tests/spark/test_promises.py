"""The promises on Spark, each beside a sabotage that must break it.

Bounds are such that a busy machine holds them, and no controller that breaks the promise does. The
promises are measured alone; a busy machine only helps a sabotage.
Ages come from the tuples themselves, behind the gate; nothing here believes the report.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as plain

from penstock import Site, replay
from penstock import functions as sf
from penstock.core.capacity import Capacity
from penstock.core.controller import Controller
from penstock.core.demand import Demand
from penstock.core.fairness import jain
from penstock.core.settings import Settings
from penstock.core.types import Floats
from penstock.windows.in_force import ConceptWindows
from tests.sabotage import AdmitsAll, IgnoresTheClock
from tests.spark.support import wait_until

INTERVAL, LATENCY = 0.5, 2.0
RATE = 30_000
"""Several times what two cores can do of this work."""
WORK = 400
"""How often a payload is repeated before it is hashed."""
BROKEN_WORK = 200
"""The same for what must break: it also does with half of the work, and its batches end sooner."""
SECONDS = 10.0
SETTLED = 5.0


class AllToOne:
    """Gives one query all that there is."""

    name: ClassVar[str] = "all-to-one"

    def rates(self, demand: Demand, capacity: float) -> Floats:
        cost = demand.tuples * demand.cost
        first = demand.query == 0
        share = min(capacity / max(float(cost[first].sum()), 1e-12), 1.0)
        whole = capacity >= float(cost.sum())
        return np.ones(len(demand)) if whole else np.where(first, share, 0.0)


def sabotaged(capacity: type[Capacity]) -> Any:
    def controller(settings: Settings) -> Controller:
        return Controller(settings, capacity=capacity, windows=ConceptWindows())

    return controller


def _ages(
    spark: SparkSession,
    profile: Sequence[Mapping[str, float | str]] | None = None,
    work: int = WORK,
    **site: Any,
) -> list[tuple[float, float]]:
    """Runs the job; for each batch its end, since the first began, and its oldest tuple's age."""
    made = Site(spark, interval=INTERVAL, latency=LATENCY, **site)
    raw = replay(spark, generator="readings", rate=RATE, keys=5, profile=profile)
    gated = raw.transform(made.gate, query="readings").observe(
        "truth", plain.min("_arrival").cast("double").alias("oldest")
    )
    digest = plain.sha2(plain.repeat("payload", work), 256)
    hashed = (
        gated.withColumn("digest", digest)
        .groupBy("key")
        .agg(sf.count("*").alias("n"), plain.max("digest").alias("digest"))
    )
    writer = hashed.writeStream.format("noop").outputMode("complete")
    query = made.start(writer, name="readings")
    told: dict[int, Any] = {}

    def collected() -> bool:
        told.update({each.batchId: each for each in query.recentProgress})
        return bool(told) and len(told) > 1 and _end(told[max(told)]) - _start(told) > SECONDS

    wait_until(collected, seconds=120, what=f"{SECONDS} s of batches")
    made.stop()
    return [
        (_end(each) - _start(told), _end(each) - each.observedMetrics["truth"].oldest)
        for _, each in sorted(told.items())
        if each.observedMetrics and each.observedMetrics["truth"].oldest is not None
    ]


def _start(told: Mapping[int, Any]) -> float:
    return _end(told[min(told)])


def _end(progress: Any) -> float:
    started = np.datetime64(progress.timestamp.rstrip("Z"), "ms").astype(float) / 1000
    return float(started) + float(progress.durationMs["triggerExecution"]) / 1000


def _late_share(ages: list[tuple[float, float]], since: float = SETTLED) -> float:
    """The share of the batches since then whose oldest tuple was later than it may be."""
    settled = [age > 1.5 * LATENCY for at, age in ages if at > since]
    return float(np.mean(settled)) if settled else 1.0


@pytest.mark.alone
def test_latency_is_held_under_overload(spark: SparkSession) -> None:
    assert _late_share(_ages(spark)) <= 0.1


def test_sabotage_of_latency_is_caught(spark: SparkSession) -> None:
    assert _late_share(_ages(spark, work=BROKEN_WORK, controller=sabotaged(IgnoresTheClock))) > 0.5


BURST: Sequence[Mapping[str, float | str]] = [{"at": 0, "factor": 0.05}, {"at": 4, "factor": 1.0}]


@pytest.mark.alone
def test_a_burst_is_over_within_a_few_batches(spark: SparkSession) -> None:
    assert _late_share(_ages(spark, profile=BURST), since=SETTLED + 3) <= 0.2


def test_sabotage_of_a_burst_is_caught(spark: SparkSession) -> None:
    ages = _ages(spark, profile=BURST, work=BROKEN_WORK, controller=sabotaged(AdmitsAll))
    assert _late_share(ages, since=SETTLED + 3) > 0.5


def _sic(spark: SparkSession, **site: Any) -> dict[str, float]:
    """What of each tenant was admitted in the settled part of a run."""
    made = Site(spark, interval=INTERVAL, latency=LATENCY, **site)
    raw = replay(spark, generator="readings", rate=RATE, keys=6, skew=1.0)
    gated = raw.transform(made.gate, query=plain.col("key").cast("string"))
    digest = plain.sha2(plain.repeat("payload", WORK), 256)
    hashed = (
        gated.withColumn("digest", digest)
        .groupBy("key")
        .agg(sf.count("*").alias("n"), plain.max("digest").alias("digest"))
    )
    query = made.start(hashed.writeStream.format("noop").outputMode("complete"), name="tenants")
    wait_until(lambda: len(query.recentProgress) >= 10, seconds=120, what="ten batches")
    before = {each.id: each for each in made.report().queries}
    wait_until(lambda: len(query.recentProgress) >= 22, seconds=120, what="twelve more")
    after = {each.id: each for each in made.report().queries}
    made.stop()
    return {
        name: (each.admitted - before[name].admitted) / (each.arrived - before[name].arrived)
        for name, each in after.items()
    }


@pytest.mark.alone
def test_tenants_lose_alike(spark: SparkSession) -> None:
    sic = list(_sic(spark).values())
    assert max(sic) < 0.9  # it is overload
    assert jain(sic) >= 0.97


def test_sabotage_of_fairness_is_caught(spark: SparkSession) -> None:
    assert jain(list(_sic(spark, policy=AllToOne()).values())) < 0.9
