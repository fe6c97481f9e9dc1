"""``field-idle``: what gate, weights and bounds cost while nothing is shed."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock import Site
from penstock.lab.bench import harness as h
from penstock.lab.bench.turns import TurnPlan, in_turns
from penstock.lab.field.child import Child
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import progress_of
from penstock.lab.field.idle_job import GENEROUS_LATENCY_SECONDS, NAMES, start
from penstock.lab.field.job import FieldJob
from penstock.lab.field.stand import FieldOptions, Stand, say
from penstock.spark.progress import Progress

SIZE = 30_000
"""Messages a batch of one interval."""
LOAD = 20
TURN, PAUSE = 8.0, 4.0
WARM_ROUNDS = 2
SECONDS = 150.0
"""Of turns that count, on each source."""
CASES = ("kafka", "replay")


def claims_of(case: str) -> list[Claim]:
    """Returns what must hold on a source."""
    return [
        Claim("bounds", f"{case}: throughput with bounds, of the plain job's", least=0.90),
        Claim("gate", f"{case}: throughput behind an open gate, of the plain job's", least=0.95),
    ]


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Compares on each source so many times."""
    told = {}
    for case in options.one_of(CASES):
        one = {"kafka": _on_kafka, "replay": _on_replay}[case]
        runs = [_figures(one(stand, options)) for _ in range(options.runs)]
        told[case] = summed_up(runs, claims_of(case))
    holds = {text: held for each in told.values() for text, held in each["holds"].items()}
    return {"rows_a_batch": SIZE, "load": LOAD, "cases": told, "holds": holds}


def _figures(costs: dict[str, list[float]]) -> dict[str, Any]:
    """Returns throughputs of the plain one's, from microseconds a tuple in full batches."""
    middle = {n: float(np.median(c)) if c else float("nan") for n, c in costs.items()}
    ratios = {name: middle["plain"] / middle[name] for name in ("gate", "bounds")}
    return {**ratios, "microseconds": middle, "full_batches": {n: len(c) for n, c in costs.items()}}


def _plan(options: FieldOptions) -> TurnPlan:
    if options.short:
        return TurnPlan(1, 0, TURN / 2, PAUSE / 4)
    rounds = round((options.seconds or SECONDS) / (len(NAMES) * (TURN + PAUSE)))
    return TurnPlan(max(rounds, 1), WARM_ROUNDS, TURN, PAUSE)


def _on_replay(stand: Stand, options: FieldOptions) -> dict[str, list[float]]:
    del stand
    say("the plain job, a gate and bounds in turns, on replay")
    with (
        h.bench_session() as spark,
        Site(spark, latency=GENEROUS_LATENCY_SECONDS, rehearse=False) as site,
    ):
        jobs = {name: partial(_replayed, name, site) for name in NAMES}
        return in_turns(spark, jobs, SIZE, _plan(options), keys=20)


def _replayed(name: str, site: Site, stream: DataFrame, directory: str) -> StreamingQuery:
    shaped = stream.select(
        sf.col("payload").alias("value"),
        sf.col("_arrival").alias("timestamp"),
        sf.lit(0).alias("partition"),
        sf.col("_offset").alias("offset"),
    )
    job = FieldJob(load=LOAD)
    return start(shaped, name, job, site, directory, schema=h.READING_SCHEMA, route="key")


def _on_kafka(stand: Stand, options: FieldOptions) -> dict[str, list[float]]:
    plan, topics = _plan(options), {name: stand.topic() for name in NAMES}
    spec = {
        "address": stand.broker.address,
        "jars": stand.broker.jars.connector,
        "topics": topics,
        "load": LOAD,
        "folder": stand.place(),
    }
    cycle = len(NAMES) * (plan.seconds + plan.pause)
    say(f"the plain job, a gate and bounds in {plan.warm + plan.count} turns, on Kafka")
    with (
        Child("penstock.lab.field.idle_job", spec, stand.folder, "idle") as job,
        ExitStack() as all_,
    ):
        job.wait_for(lambda: job.told("starting"), 120, "its start")
        for place, topic in enumerate(topics.values()):
            rates = _rates(place, plan, cycle)
            feed = all_.enter_context(stand.feed(topic, *rates))
        since = feed.started + plan.warm * cycle
        job.wait((plan.warm + plan.count) * cycle + plan.pause)
        job.stop()
        told = progress_of(job)
        job.lines.unlink()
    return {name: _costs(told, name, since) for name in NAMES}


def _rates(place: int, plan: TurnPlan, cycle: float) -> list[tuple[float, float]]:
    """Returns the schedule of one job's messages: full in its turns, and nothing else."""
    first, rounds = plan.pause + place * (plan.seconds + plan.pause), plan.warm + plan.count
    steps = [(0.0, 0.0)]
    for number in range(rounds):
        start = first + number * cycle
        steps += [(start, float(SIZE)), (start + plan.seconds, 0.0)]
    return steps


def _costs(told: list[Progress], name: str, since: float) -> list[float]:
    """Returns microseconds a tuple in the batches that were full and beside no other."""
    alone = {
        id(row)
        for before, row, after in zip([None, *told], told, [*told[1:], None], strict=False)
        if (before is None or before.ended <= row.started)
        and (after is None or row.ended <= after.started)
    }
    return [
        1e6 * row.seconds / row.rows
        for row in told
        if row.name == name
        and row.started >= since
        and abs(row.rows / SIZE - 1) < 0.15
        and id(row) in alone
    ]
