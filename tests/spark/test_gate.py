"""The gate on streams, with plans of the tests' choosing: counts, decisions, weights.

The tests that ``test_cluster.CORE`` names run a second time on executors of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.core.types import Count, Plan, Stratum
from penstock.sources.options import parse
from penstock.sources.replay import replay
from penstock.spark.gate.columns import SIC, WEIGHT
from tests.spark.support import (
    Rig,
    file_stream,
    is_admitted,
    plan,
    tally,
    write_batches,
)


def group(name: object) -> Stratum:
    return Stratum("q", "s", r"\N" if name is None else str(name))


A, B, C = group("a"), group("b"), group("c")
SHEDDING = {A: 0.5, B: 0.1}


def test_counts_are_exact_and_each_plan_is_in_force_in_its_own_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Laws 1 and 8: open and counting, shedding, open and not looking, shedding otherwise."""
    letters = np.random.default_rng(1).choice(["a", "b", "c"], (5, 2000), p=[0.6, 0.3, 0.1])
    batches = [{"k": list(row)} for row in letters]
    plans = [
        (Plan(0), True),
        (plan(1, SHEDDING, default=0.25), False),
        (plan(2, dict.fromkeys(SHEDDING, 1.0)), False),
        (plan(3, {A: 0.05, B: 1.0, C: 0.0}, default=0.9), False),
        (plan(4, {}, default=0.3), False),
    ]
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    rig = Rig(spark, stream, lambda tick: plans[tick], strata=["k"])
    rows = rig.run()

    assert rig.ticks == 5
    assert rig.tallied == 3  # not the first, of unknown strata, and not where it did not look
    for number, (chosen, _) in enumerate(plans):
        expected = tally(batches[number], group, 2000 * number, chosen.rate)
        counted = rig.counts[number]
        total = Count(*np.array(list(expected.values())).sum(axis=0).tolist())
        assert rig.totals[number] == total
        assert counted == ({rig.gate.keys.others: total} if number == 2 else expected)
        kept = {
            row["n"]: chosen.rate(group(k))
            for k, row in ((row["k"], row) for row in rows if row["b"] == number)
        }
        assert kept.keys() == {
            n
            for n, k in enumerate(batches[number]["k"], start=2000 * number)
            if is_admitted(n, chosen.rate(group(k)))
        }
        weights = {row["n"]: row[WEIGHT] for row in rows if row["b"] == number}
        assert all(weights[n] == pytest.approx(1 / rate, rel=1e-12) for n, rate in kept.items())
        rates = np.array([chosen.rate(group(k)) for k in batches[number]["k"]])
        sampled = rates[rates > 0]
        deviation = np.sqrt((1 / sampled - 1).sum())
        assert abs(sum(weights.values()) - sampled.size) <= 4 * deviation  # unbiased
    assert {row[SIC] for row in rows} == {1.0}  # there is but one source


def test_the_passing_of_tuples_is_timed_unless_the_gate_is_idle(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With what comes behind the gate; not where it is idle."""
    batches = [{"k": ["a", "b"] * 1000}] * 4
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    plans = [(Plan(0), True), (Plan(1), False), (plan(2, SHEDDING), False), (Plan(3), True)]
    rig = Rig(spark, stream, lambda tick: plans[tick], strata=["k"])
    text = sf.repeat(sf.concat("k", sf.col("n").cast("string")), 60)
    slow = rig.frame.select("n", sf.levenshtein(text, sf.repeat(sf.lit("x"), 300)).alias("d"))
    rig.run(frame=slow)
    assert rig.query is not None
    spans = [rig.spans[number] for number in range(4)]
    took = [p.durationMs["triggerExecution"] / 1000 for p in rig.query.recentProgress]
    assert spans[1] is None
    for number in (0, 2, 3):
        span = spans[number]
        assert span is not None
        assert 0.05 < span < took[number]


def test_a_gate_of_one_stratum_switches_between_open_and_shut(
    spark: SparkSession, tmp_path: Path
) -> None:
    only = Stratum("q", "s")
    rates = [1.0, 0.2, 1.0, 0.7, 0.0]
    batches = [{"v": range(1000)}] * 5
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    rig = Rig(spark, stream, lambda tick: (plan(tick, {only: rates[tick]}), False))
    rows = rig.run()
    for number, rate in enumerate(rates):
        kept = sum(is_admitted(n, rate) for n in range(1000 * number, 1000 * number + 1000))
        assert rig.counts[number] == {only: Count(1000, kept)}
        assert sum(row["b"] == number for row in rows) == kept
    weights = {row["b"]: row[WEIGHT] for row in rows}
    assert weights == pytest.approx({0: 1.0, 1: 5.0, 2: 1.0, 3: 1 / 0.7})


def _compiled(
    spark: SparkSession, folder: Path, strata: list[str], *, constant: bool = False
) -> int:
    """How often Spark compiles code while a plan changes seven times, from the third one on."""
    metrics = cast(Any, spark)._jvm.org.apache.spark.metrics.source.CodegenMetrics
    counted: list[int] = []

    def chosen(tick: int) -> tuple[Plan, bool]:
        counted.append(metrics.METRIC_COMPILATION_TIME().getCount())
        return plan(tick, {A: 1 / (tick + 2)}, default=1 / (tick + 3)), False

    stream = file_stream(spark, write_batches(folder, [{"k": ["a", "b"] * 100}] * 7))
    rig = Rig(spark, stream, chosen, strata=strata)
    first = sf.get(rig.gate.wire.thresholds, sf.lit(1))
    rig.run(frame=rig.frame.withColumn("first", first) if constant else None)
    return counted[-1] - counted[2]


@pytest.mark.parametrize("strata", [[], ["k"]], ids=["one stratum", "several"])
def test_a_new_plan_compiles_nothing(
    spark: SparkSession, tmp_path: Path, strata: list[str]
) -> None:
    """A rate that is a constant in the generated code would be compiled anew in every batch."""
    assert _compiled(spark, tmp_path / "in", strata) == 0


def test_sabotage_by_a_constant_in_the_code_is_caught(spark: SparkSession, tmp_path: Path) -> None:
    assert _compiled(spark, tmp_path / "in", [], constant=True) >= 4


def test_a_batch_that_is_run_again_is_decided_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Law 8: its commit is taken away, so Spark runs it again, in a query of its own."""
    batches = [{"k": ["a", "b"] * 1000}] * 3
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    shed = plan(1, SHEDDING)
    # a gate that knows no strata yet decides by its default; so the strata are made known
    first = Rig(spark, stream, lambda _: (shed, False), strata=["k"])
    first.gate.strata.fingerprints = known(spark, tmp_path / "in")
    seen = []
    writer = first.frame.writeStream.foreachBatch(
        lambda batch, number: seen.append((number, batch.collect()))
    )
    writer = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
    writer.start().awaitTermination(60)
    for name in ("2", ".2.crc"):
        (tmp_path / "ck" / "commits" / name).unlink()
    writer.start().awaitTermination(60)
    assert [number for number, _ in seen] == [0, 1, 2, 2]
    assert sorted(seen[2][1]) == sorted(seen[3][1])
    expected = [n for n in range(4000, 6000) if is_admitted(n, 0.1 if n % 2 else 0.5)]
    assert sorted(row["n"] for row in seen[3][1]) == expected


def known(spark: SparkSession, folder: Path) -> dict[Stratum, int]:
    """The fingerprints of strata by ``k``, by a batch query."""
    frame = spark.read.parquet(str(folder))
    rows = frame.select("k", sf.xxhash64("k").alias("f")).distinct().collect()
    return {group(row["k"]): row["f"] for row in rows}


def test_no_two_strata_share_a_name(spark: SparkSession, tmp_path: Path) -> None:
    """Nulls, empty texts, and texts with what separates the parts of a name."""
    names = {
        (None, "a"): r"\N,a",
        ("a", None): r"a,\N",
        ("", "a"): ",a",
        ("a,a", ""): r"a\,a,",
        ("a", "a,"): r"a,a\,",
        (r"\N", "a"): r"\\N,a",
    }
    pairs = list(names)
    columns = list(zip(*[pairs[i % 6] for i in range(2400)], strict=True))
    text = {name: list(column) for name, column in zip("kl", columns, strict=True)}
    stream = file_stream(spark, write_batches(tmp_path / "in", [text, text]))
    rates = {group(name): 0.15 * (i + 1) for i, name in enumerate(names.values())}
    plans = [(Plan(0), True), (plan(1, rates), False)]
    rig = Rig(spark, stream, lambda tick: plans[tick], strata=["k", "l"])
    rig.run()

    def stratum(*values: str | None) -> Stratum:
        return group(names[values[0], values[1]])

    assert rig.counts[0] == tally(text, stratum, 0, lambda _: 1.0)
    assert rig.counts[1] == tally(text, stratum, 2400, rates.__getitem__)


def test_strata_appear_and_vanish(spark: SparkSession, tmp_path: Path) -> None:
    """A stratum that is new is admitted at the default rate, and known in the next batch."""
    letters = ["ab", "bc", "cd", "da"]
    batches = [{"k": list(pair) * 500} for pair in letters]
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    rates = {group(letter): rate for letter, rate in zip("abcd", (0.2, 0.4, 0.6, 0.8), strict=True)}

    def plans(tick: int) -> tuple[Plan, bool]:
        alive = {group(letter): rates[group(letter)] for letter in letters[max(tick - 1, 0)]}
        return plan(tick, alive, default=0.1), False

    rig = Rig(spark, stream, plans, strata=["k"], most_strata=3)
    rig.run()
    before: set[Stratum] = set()
    for number, pair in enumerate(letters):
        now = {group(letter) for letter in pair}
        expected = {s: rates[s] if s in before else 0.1 for s in now}
        assert rig.counts[number] == tally(
            batches[number], group, 1000 * number, expected.__getitem__
        )
        before = now
    assert len(rig.gate.strata.fingerprints) <= 3


def test_too_many_strata_are_still_counted_together(spark: SparkSession, tmp_path: Path) -> None:
    """400 strata where 8 may be known: all alike in the first batch, some large ones later."""
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 400, (3, 4000))
    keys[1:, :2500] %= 2
    batches = [{"k": [f"k{key}" for key in row]} for row in keys]
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    half = plan(1, {}, default=0.5)
    rig = Rig(spark, stream, lambda _: (half, True), strata=["k"], most_strata=8)
    rig.run()
    assert 0 < len(rig.gate.strata.fingerprints) <= 8
    for number in range(3):
        kept = sum(is_admitted(n, 0.5) for n in range(4000 * number, 4000 * number + 4000))
        assert rig.totals[number] == (4000, kept)
        assert_adds_up(rig.counts[number], 4000, kept)


def assert_adds_up(counts: dict[Stratum, Count], arrived: int, admitted: int) -> None:
    assert all(0 <= count.admitted <= count.arrived for count in counts.values())
    assert sum(count.arrived for count in counts.values()) == arrived
    assert sum(count.admitted for count in counts.values()) == admitted


def test_names_with_odd_letters_do_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    """Separators in the data, an empty text, a null, letters of more than one byte."""
    names = ["x\x1fy", "\x1f", "a,b", "", None, "ünï→", "x" * 300]
    batches = [{"k": names * 100}] * 2
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    rig = Rig(spark, stream, lambda n: (plan(n, {}, default=0.5), True), strata=["k"])
    rig.run()
    for number in range(2):
        kept = sum(is_admitted(n, 0.5) for n in range(700 * number, 700 * number + 700))
        assert_adds_up(rig.counts[number], 700, kept)
        assert rig.counts[number][group("a,b")].arrived == 100
        assert (
            rig.counts[number][group("")].arrived == rig.counts[number][group(None)].arrived == 100
        )


def generated(options: dict[str, Any], rig: Rig, batches: int) -> list[tuple[int, list[Any]]]:
    """What the replay source sent in each batch, without Spark: first number and rows."""
    assert rig.query is not None
    told = rig.query.recentProgress[:batches]
    ends = [json.loads(progress.sources[0].endOffset)["offset"] for progress in told]
    settings = parse({name: str(value) for name, value in options.items()})
    return [
        (start, [row for part in settings.rows(start, end) for row in arrow_rows(part)])
        for start, end in pairwise([0, *ends])
    ]


def constant(rate: float) -> Callable[[Stratum], float]:
    return lambda _: rate


def looked_up(rates: Mapping[Stratum, float]) -> Callable[[Stratum], float]:
    return lambda stratum: rates.get(stratum, 1.0)


def arrow_rows(batch: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_query_and_source_from_columns(spark: SparkSession) -> None:
    """The generator "keyed": every stratum is counted as the stream's rows say."""
    options: dict[str, Any] = {
        "generator": "keyed",
        "rate": 1e5,
        "queries": 30,
        "maxRowsPerTrigger": 5000,
    }
    stream = replay(spark, **options).withColumnRenamed("_offset", "n")
    rates = [1.0, 0.5, 0.2, 0.7]
    rig = Rig(
        spark,
        stream,
        lambda n: (plan(n, {}, default=rates[n] if n < 4 else 1.0), True),
        query=sf.col("query"),
        source=sf.col("source"),
    )
    rig.run_for(4)
    for number, (start, rows) in enumerate(generated(options, rig, 4)):
        columns = {name: [row[name] for row in rows] for name in ("query", "source")}
        # strata that are known, but not in the plan, get the default rate as well
        expected = tally(columns, Stratum, start, constant(rates[number]), source="")
        assert rig.counts[number] == expected
        assert expected
        assert len(rows) == rig.totals[number][0]


def test_readings_by_key_under_many_rates(spark: SparkSession) -> None:
    """Law 7, and the counts of 300 strata: Σw is near what arrived."""
    options: dict[str, Any] = {"generator": "readings", "rate": 1e5, "keys": 300, "skew": 0.3}
    stream = replay(spark, **options, maxRowsPerTrigger=20_000).withColumnRenamed("_offset", "n")
    rates = {group(f"k{key:05d}"): 0.05 + 0.9 * key / 300 for key in range(300)}
    plans = [(Plan(0), True), (plan(1, rates, default=0.01), False)]
    rig = Rig(spark, stream, lambda n: plans[min(n, 1)], strata=["key"])
    rig.run_for(3, rig.frame.observe("after", sf.sum(WEIGHT).alias("w"), sf.count("*").alias("n")))
    assert rig.query is not None
    for number, (start, rows) in enumerate(generated(options, rig, 3)):
        keys = {"key": [row["key"] for row in rows]}
        met = set().union(*(rig.counts[before] for before in range(number)))
        rate = {s: rates[s] if s in met else 0.01 for s in rates} if number else {}
        assert rig.counts[number] == tally(keys, group, start, looked_up(rate))
        after = rig.query.recentProgress[number].observedMetrics["after"]
        assert after["n"] == rig.totals[number][1]
        if number != 1:  # where few strata are known, weights of 100 say little
            assert after["w"] == pytest.approx(len(rows), rel=0.05)


def test_a_source_of_sparks_own(spark: SparkSession) -> None:
    """rate-micro-batch; strata from an expression, which Spark pushes about as it likes."""
    stream = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=3000, numPartitions=3)
        .load()
        .withColumnRenamed("value", "n")
        .withColumn("k", sf.col("n") % 3)
    )
    rates = {group(0): 0.9, group(1): 0.3, group(2): 0.05}
    plans = [(Plan(0), True), (plan(1, rates), False)]
    rig = Rig(spark, stream, lambda n: plans[min(n, 1)], strata=["k"])
    rig.run_for(3, rig.frame.where(sf.col("k") != 2).withColumn("twice", sf.col("n") * 2))
    for number in range(3):
        numbers = {"k": [n % 3 for n in range(3000 * number, 3000 * number + 3000)]}
        rate = rates.__getitem__ if number else (lambda _: 1.0)
        assert rig.counts[number] == tally(numbers, group, 3000 * number, rate)


def test_progress_as_json_is_counted_as_well(spark: SparkSession, tmp_path: Path) -> None:
    """The site reads progress as JSON, not as rows."""
    batches = [{"k": ["a"] * 30 + ["b"] * 20}]
    stream = file_stream(spark, write_batches(tmp_path / "in", batches))
    rig = Rig(spark, stream, lambda n: (plan(n, {}, default=0.5), True), strata=["k"])
    rig.run()
    assert rig.query is not None
    told = json.loads(rig.query.recentProgress[0].json)["observedMetrics"][rig.gate.name]
    assert rig.gate.codec.decode(told).counts == rig.counts[0]
