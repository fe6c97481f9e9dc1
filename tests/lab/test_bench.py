"""The short form of the benchmarks: each runs to its end and says what holds.

Whether a promise holds is for the long form on a quiet machine (``penstock bench``); what cannot
depend on time, such as the ledger or the equality of results, must hold here too.
"""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from penstock.guard.guard_plan import GuardPlan
from penstock.guard.hashes import fingerprints
from penstock.guard.sketch import Sketch
from penstock.lab.bench import harness
from penstock.lab.bench.best_fixed_rate import Turn, best_fixed, compared
from penstock.lab.bench.guard_rivals import CORES, AdmittedSoFar, StrawManAdmission
from penstock.lab.bench.suite import BENCHES
from penstock.lab.bench.transparent import (
    LARGE_BATCH_FACTOR,
    SLOPES,
    SMALL_BATCH_FACTOR,
    _figures,
)

ALWAYS = {
    "truthful": [
        "every SIC that the site said is that of what was kept, to within 0.01",
        "the ledger equals the source's count",
        "the ledger equals what came through",
        "the ledger is balanced",
    ],
    "transparent": ["results equal row for row"],
    "groups": ["the driver and the plan know at most max_strata"],
}
MEASURED = harness.heavy_throughput
SECONDS, INTERVAL_SECONDS = 1.0, 0.25
"""As short as a run can be that has batches enough."""


@pytest.fixture
def short_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short intervals; and what the heavy job can process is measured once for all of them."""
    monkeypatch.setattr(harness, "INTERVAL_SECONDS", INTERVAL_SECONDS)
    monkeypatch.setattr(harness, "TRIGGER", f"{round(1000 * INTERVAL_SECONDS)} milliseconds")
    monkeypatch.setattr(harness, "heavy_throughput", _heavy_throughput)


@cache
def _heavy_throughput(spark: SparkSession, seconds: float) -> float:
    return MEASURED(spark, seconds)


@pytest.mark.usefixtures("short_form")
@pytest.mark.parametrize("name", BENCHES)
def test_bench(spark: SparkSession, name: str) -> None:
    result: dict[str, Any] = BENCHES[name](spark, SECONDS)
    json.dumps(result)
    assert result["holds"], "it says of no promise whether it holds"
    assert all(isinstance(good, bool) for good in result["holds"].values())
    for promise in ALWAYS.get(name, []):
        assert result["holds"][promise], {k: v for k, v in result.items() if k != "raw"}


def test_what_a_gate_adds_is_told_beside_what_reading_costs() -> None:
    """Slopes of 10, 3 and 2 µs between 250 and 4,000 tuples, each with 0.3 s of a batch's own."""
    slopes = dict(zip(SLOPES, (10e-6, 3e-6, 2e-6), strict=True))
    seconds = {
        f"{name}, {factor:g}": 0.3 + slope * factor * 1000
        for name, slope in slopes.items()
        for factor in (SMALL_BATCH_FACTOR, LARGE_BATCH_FACTOR)
    }
    assert _figures(seconds, 1000) == pytest.approx(
        {
            "admitted_tuple_us": 10.0,
            "shed_tuple_us": 3.0,
            "dropped_tuple_us": 2.0,
            "shed_over_admitted": 0.3,
            "dropped_over_admitted": 0.2,
            "gate_over_admitted": 0.1,
        }
    )


def test_the_best_fixed_rate_is_not_the_luckiest() -> None:
    def run(admitted: float, latency: float) -> dict[str, float]:
        return {"admitted_per_second": admitted, "p95": latency}

    assert best_fixed([run(100, 1.0), run(200, 2.0)], "p95", 1.5) == 150
    assert best_fixed([run(100, 1.0), run(200, 2.2), run(300, 1.8)], "p95", 1.5) == 175
    assert best_fixed([run(100, 1.0), run(200, 2.0)], "p95", 0.5) == 100
    assert best_fixed([run(100, 1.0), run(200, 2.0)], "p95", 9.0) == float("inf")


def test_capacity_used_is_what_the_controller_admits_of_what_a_fixed_rate_of_its_latency_does() -> (
    None
):
    def batch(second: int) -> harness.BatchRecord:
        """In turns of ten seconds: the controller, 80 a second, the controller, 120 a second."""
        admitted = (100, 80, 100, 120)[second // 10]
        return harness.BatchRecord(
            second, second, second + admitted / 100, 1000, admitted, second - 1.0, second
        )

    recorded = harness.Recorded([batch(second) for second in range(40)])
    turns = [Turn(0, 10), Turn(10, 20, 0.8, 0.08), Turn(20, 30), Turn(30, 40, 1.2, 0.12)]
    found = compared(recorded, turns)
    assert found["controller"]["admitted_per_second"] == pytest.approx(100)
    for latency in ("p95", "median"):
        assert found["best_fixed"][latency] == pytest.approx(100)
        assert found["used"][latency] == pytest.approx(1.0)


def test_p95_weighs_tuples_not_batches() -> None:
    def batch(number: int, latency: float, admitted: int) -> harness.BatchRecord:
        return harness.BatchRecord(number, 0.0, latency, admitted, admitted, 0.0, 0.0)

    assert harness.p95([batch(0, 9.0, 1), batch(1, 1.0, 1000)]) == 1.0
    assert harness.p95([batch(0, 9.0, 1000), batch(1, 1.0, 1)]) == 9.0


@pytest.mark.parametrize(("load", "shed"), [(1.0, 0.0), (2.0, 0.5), (4.0, 0.75)])
def test_a_straw_man_sheds_what_is_too_much_on_average(
    tmp_path: Path, load: float, shed: float
) -> None:
    """Over all of its tasks, each of which sees a part of a micro-batch."""
    mean, now, arrived, kept = 0.004, 0.0, 0, 0
    so_far, plan = AdmittedSoFar(tmp_path / "admitted"), GuardPlan(0.5, sketch=Sketch(0.01))
    for batch in range(40):
        now += 0.5
        moments = np.arange(batch * 0.5, now, mean / CORES / load)
        for half in np.array_split(moments, CORES):
            admission = StrawManAdmission(lambda row: row, plan, partial(float, now), mean, so_far)
            admission._since_epoch = 0.0  # time is virtual
            rows = fingerprints(np.zeros(half.size, dtype=int))
            places, _ = admission.admit(lambda places: places.tolist(), rows, half)
            arrived, kept = arrived + half.size, kept + len(places)
    assert 1 - kept / arrived == pytest.approx(shed, abs=0.03)
