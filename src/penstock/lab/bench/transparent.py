"""Measures what a gate costs when nothing is wrong, and what a tuple costs that is shed."""

import time
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock.lab.bench import harness as h
from penstock.lab.bench.turns import TurnPlan, in_turns

KEYS = 1000
ROUNDS = 4
"""The first round warms the JVM up and does not count; a short run has one in all."""
TURN_SECONDS = 10.0
"""How long the plain job has tuples, and then the one behind an open gate."""
PAUSE_SECONDS = 4.0
"""From the last tuples of the one until the other has some."""
WARM_TURNS = 3
FULL_BATCH_INTERVALS = 1.0
"""The tuples of a batch, in what the plain job processes in an interval."""
SMALL_BATCH_FACTOR, LARGE_BATCH_FACTOR = 0.25, 4.0
"""The batches between which slopes are taken, in full batches."""
SLOPES = ("all admitted", "all shed", "dropped by a filter")
"""The last is the plain job behind the cheapest filter there is, which lets nothing through: Spark
reads every tuple, as it does in front of a gate."""
MOST_SHED_SHARE = 0.15
VARIANTS = [(name, share) for name in SLOPES for share in (SMALL_BATCH_FACTOR, LARGE_BATCH_FACTOR)]


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares results and throughput with and without an open gate."""
    same = _row_for_row(spark, seconds / 4)
    part = min(seconds / h.MEANINGFUL_SECONDS, 1.0)  # a short run has small batches
    can = h.throughput(_job(spark, round(200_000 * part), None), seconds / 4, "calibration")
    size = round(can * FULL_BATCH_INTERVALS * part)
    count, warm = (ROUNDS, WARM_TURNS) if seconds >= h.MEANINGFUL_SECONDS else (1, 0)
    agreed = TurnPlan(
        max(round(seconds / 9), 1), warm, min(TURN_SECONDS, seconds), min(PAUSE_SECONDS, seconds)
    )
    turns = _in_turns(spark, size, agreed)
    rounds = [_round(spark, size, seconds / 11, number) for number in range(count)][-ROUNDS + 1 :]
    found = [_figures({name: float(np.median(x)) for name, x in r.items()}, size) for r in rounds]
    figures = {name: float(np.median([each[name] for each in found])) for name in found[0]}
    figures["throughput_of_plain"] = _ratio(turns)
    return {
        "rows_a_batch": size,
        "strata": KEYS,
        **figures,
        "rounds": found,
        "turns": turns,
        "row_for_row": same,
        "raw": rounds,
        "holds": {
            "results equal row for row": same["equal"],
            "throughput at least 0.92 of the plain job's": figures["throughput_of_plain"] >= 0.92,
            "a shed tuple, read and shed, costs at most 0.15 of an admitted one more than a tuple "
            "that a filter drops": figures["gate_over_admitted"] <= MOST_SHED_SHARE,
        },
    }


def _round(spark: SparkSession, size: int, seconds: float, number: int) -> dict[str, list[float]]:
    """Runs every variant once, in turn forwards and backwards, so that drift hits all alike."""
    return {
        f"{name}, {share:g}": _batch_seconds(spark, name, round(size * share), seconds)
        for name, share in (VARIANTS if number % 2 else VARIANTS[::-1])
    }


def _figures(median: dict[str, float], size: int) -> dict[str, float]:
    """Computes the figures of one round.

    A slope is what one more tuple costs, with reading it, in which what every batch costs cancels
    out. No tuple is free to read, so none of the three is negative; what the gate adds to dropping
    a tuple, their difference, is as uncertain as both of them.
    """
    slope = {
        name: (
            median[f"{name}, {LARGE_BATCH_FACTOR:g}"] - median[f"{name}, {SMALL_BATCH_FACTOR:g}"]
        )
        / ((LARGE_BATCH_FACTOR - SMALL_BATCH_FACTOR) * size)
        for name in SLOPES
    }
    admitted, shed, dropped = (slope[name] for name in SLOPES)
    return {
        "admitted_tuple_us": admitted * 1e6,
        "shed_tuple_us": shed * 1e6,
        "dropped_tuple_us": dropped * 1e6,
        "shed_over_admitted": shed / admitted,
        "dropped_over_admitted": dropped / admitted,
        "gate_over_admitted": (shed - dropped) / admitted,
    }


def _stream(spark: SparkSession, rows: int) -> DataFrame:
    """Returns a stream with always more to read than a batch takes."""
    return h.readings(spark, 5_000_000, maxRowsPerTrigger=rows, keys=KEYS, skew=0.5)


def _job(spark: SparkSession, rows: int, admit: float | None) -> DataFrame:
    stream = _stream(spark, rows)
    gated = h.plain(stream) if admit is None else h.fixed_gate(spark, stream, admit, KEYS)
    return h.light(gated)


def _in_turns(spark: SparkSession, size: int, turns: TurnPlan) -> dict[str, list[float]]:
    with h.gated_site(spark, latency="1h") as site:

        def start_open(stream: DataFrame, directory: str) -> StreamingQuery:
            gated = site.gate(stream, query="q", source="s", strata="key", id="_offset")
            return site.start(h.sink(h.light(gated), directory), name="q")

        jobs = {"plain": _start_plain, "open": start_open}
        return in_turns(spark, jobs, size, turns, keys=KEYS, skew=0.5)


def _start_plain(stream: DataFrame, directory: str) -> StreamingQuery:
    writer = h.sink(h.light(h.plain(stream)), directory)
    return writer.trigger(processingTime=h.TRIGGER).start()


def _ratio(turns: dict[str, list[float]]) -> float:
    """Divides throughputs by means, not medians, since some batches of a gate count strata."""
    return float(np.mean(turns["plain"]) / np.mean(turns["open"])) if all(turns.values()) else 0.0


def _batch_seconds(spark: SparkSession, name: str, size: int, seconds: float) -> list[float]:
    """Returns the times of one variant's batches, without the first half, the warm-up."""
    if name == "dropped by a filter":
        nothing = _stream(spark, size).where(sf.col("_offset") < 0)
        query = h.run_plain(h.light(h.plain(nothing)), seconds, name)
    else:
        admit = {"all admitted": 1.0, "all shed": 0.0}[name]
        query = h.run_plain(_job(spark, size, admit), seconds, name)
    took = [batch.seconds for batch in h.batches_of(query) if batch.rows == size]
    return took[len(took) // 2 :]


Rows = dict[tuple[str, str], tuple[float, int, float]]
"""Mean, count and SIC of each window and key."""


def _different(plain: Rows, gated: Rows) -> int:
    """Counts rows that differ; sums may differ in the last digits, by the order of batches."""
    missing = len(plain.keys() ^ gated.keys())
    return missing + sum(
        plain[at][1:] != gated[at][1:] or not np.isclose(plain[at][0], gated[at][0], rtol=1e-12)
        for at in plain.keys() & gated.keys()
    )


def _row_for_row(spark: SparkSession, seconds: float) -> dict[str, Any]:
    """Compares both jobs on the same tuples, in windows on the tuples' numbers."""
    rate, span = 20_000, round(min(10.0, max(2 * seconds, 2.0)))
    rows = rate * span
    profile = [{"at": 0, "factor": 1}, {"at": span, "factor": 0}]  # then the stream pauses

    def result(gate: bool) -> tuple[Rows, bool]:
        stream = h.readings(spark, rate, profile=profile, keys=KEYS, skew=0.5)
        site = h.gated_site(spark, latency="1h")  # whatever else the machine does
        gated = (
            site.gate(stream, query="q", source="s", strata="key", id="_offset")
            if gate
            else h.plain(stream)
        )
        timed = h.parsed(gated).withColumn(
            "_arrival", (sf.col("_offset") / 10_000).cast("timestamp")
        )
        writer = h.windowed(timed).writeStream.format("memory").outputMode("complete")
        name = f"rows_{'gated' if gate else 'plain'}"
        query = (
            site.start(writer, name=name)
            if gate
            else writer.queryName(name).trigger(processingTime=h.TRIGGER).start()
        )
        end = time.time() + 3 * seconds + 30
        while time.time() < end:
            query_done = spark.table(name).agg(sf.sum("count")).first()
            if query_done is not None and query_done[0] is not None and query_done[0] >= rows:
                break
            time.sleep(0.5)
        found = {
            (str(row["window"]), row["key"]): (row["mean"], row["count"], row["sic"])
            for row in spark.table(name).collect()
        }
        query.stop()
        site.stop()
        return found, site.plan.open

    plain, _ = result(gate=False)
    gated, stayed_open = result(gate=True)
    different = _different(plain, gated)
    return {
        "equal": different == 0,
        "rows": len(plain),
        "different": different,
        "stayed_open": stayed_open,
    }
