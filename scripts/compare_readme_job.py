"""Compares what the README's job costs with two checkouts of Penstock, in turns.

    .venv/bin/python scripts/compare_readme_job.py ../before . --rounds 4 > figures.json

Each checkout needs its jar (``make setup``, or ``python hatch_build.py`` there). Every run is a
process and a JVM of its own. First there is always as much to do as a batch may hold and nothing is
shed: microseconds a tuple. Then more comes than two cores can do: tuples admitted a second, and the
95th percentile of the latency. A checkout that was first in a round is second in the next.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROWS = 50_000
IDLE_SECONDS, OVERLOAD_SECONDS = 14.0, 20.0
OVERLOAD_RATE = 100_000
CHILD = "--measure"


def measure() -> dict[str, float]:
    """Runs the job both ways, in the process whose path begins with the checkout's sources."""
    from pyspark.sql import DataFrame, SparkSession

    import penstock
    from penstock import Site, replay
    from penstock import functions as pf

    assert Path(penstock.__path__[0]).is_relative_to(os.environ["PYTHONPATH"])

    def rows(gated: DataFrame) -> DataFrame:
        usual = pf.lit("calibrated at the site, batch 500000000 of the autumn series")
        parsed = (
            gated.withColumn("reading", pf.from_json("payload", "value DOUBLE, note STRING"))
            .withColumn("errors", pf.levenshtein("reading.note", usual))
            .withWatermark("_arrival", "1 second")
        )
        return parsed.groupBy(pf.window("_arrival", "5 seconds"), "key").agg(
            pf.avg("reading.value", bounds=True), pf.avg("errors"), pf.count("*"), pf.sic()
        )

    settings: dict[str, bool | float | int | str | None] = {
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

    def run(latency: str, seconds: float, trigger: str, **options: Any) -> tuple[Any, list[Any]]:
        with Site(spark, latency=latency) as site, tempfile.TemporaryDirectory() as folder:
            raw = replay(spark, generator="readings", keys=5, **options)
            writer = rows(site.gate(raw, query="readings")).writeStream.format("noop")
            writer = writer.option("checkpointLocation", folder).trigger(processingTime=trigger)
            query = writer.start()
            query.awaitTermination(round(seconds))
            report, told = site.report()["readings"], query.recentProgress
            query.stop()
        return report, [each for each in told if each.numInputRows]

    _, idle = run("1 hour", IDLE_SECONDS, "0 seconds", rate=10_000_000, maxRowsPerTrigger=ROWS)
    late = idle[len(idle) // 2 :]
    tuples = sum(each.numInputRows for each in late)
    micros = 1e3 * sum(each.durationMs["triggerExecution"] for each in late) / tuples
    report, flood = run("4 seconds", OVERLOAD_SECONDS, "1 second", rate=OVERLOAD_RATE)
    late = flood[len(flood) // 2 :]
    admitted = sum(_admitted(each) for each in late)
    spent = sum(max(each.durationMs["triggerExecution"], 1000) for each in late) / 1e3
    latency = report.latency_ms
    return {
        "idle_us_a_tuple": micros,
        "idle_batches": float(len(idle)),
        "admitted_a_second": admitted / spent,
        "overload_batches": float(len(flood)),
        "p95_ms": float(latency.p95 if hasattr(latency, "p95") else latency["p95"]),
    }


def _admitted(progress: Any) -> int:
    gates = [row for name, row in progress.observedMetrics.items() if "gate" in name]
    return int(sum(row["admitted"] for row in gates))


def main() -> None:
    """Starts the runs, one after the other, and prints all figures with their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    checkouts = {"before": options.before.resolve(), "after": options.after.resolve()}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for turn in range(options.rounds):
        for name in sorted(checkouts, reverse=turn % 2 == 0):
            environment = {**os.environ, "PYTHONPATH": str(checkouts[name] / "src")}
            began = time.time()
            told = subprocess.run(
                [sys.executable, __file__, CHILD], env=environment, capture_output=True
            )
            if told.returncode:
                sys.exit(f"the job of {checkouts[name]} failed:\n{told.stderr.decode()}")
            found[name].append(json.loads(told.stdout.splitlines()[-1]))
            print(name, found[name][-1], f"{time.time() - began:.0f} s", file=sys.stderr)
    ratios = {
        figure: [
            after[figure] / before[figure]
            for before, after in zip(found["before"], found["after"], strict=True)
        ]
        for figure in found["before"][0]
    }
    middle = {figure: median(each) for figure, each in ratios.items()}
    print(json.dumps({"runs": found, "after_over_before": ratios, "median": middle}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:] == [CHILD]:
        print(json.dumps(measure()))
    else:
        main()
