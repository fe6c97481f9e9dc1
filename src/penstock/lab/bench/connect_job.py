"""One job, plain and gated, in a classic session or through Spark Connect.

``python -m penstock.lab.bench.connect_job SPEC`` runs it in a process of its own, since PySpark's
functions are those of one kind of session in the whole of a process, and prints what it saw as a
line of JSON.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from penstock.lab.bench import harness as h
from penstock.spark.progress import Progress

CLASSIC, CONNECT = "classic", "connect"
HEAD = "penstock "
"""What the line of JSON begins with, among what Spark may print."""


@dataclass(frozen=True)
class ConnectSpec:
    """Says what to run."""

    session: str
    rate: float
    """Tuples a second in the flood; 0 asks only what the job can process."""
    calm: float
    """Seconds before the flood, in which nothing is shed."""
    flood: float
    latency: float
    interval: float = 1.0


def run(spark: Any, spec: ConnectSpec) -> dict[str, Any]:
    """Runs the plain job and the gated one in the calm, and the gated one in the flood."""
    h.INTERVAL_SECONDS, h.TRIGGER = spec.interval, f"{round(1000 * spec.interval)} milliseconds"
    if not spec.rate:
        return {"can_process_per_second": h.heavy_throughput(spark, spec.flood)}
    slow = h.readings(spark, spec.rate * h.CALM_FACTOR)
    plain = h.run_plain(h.heavy(h.plain(slow)), spec.calm, f"{spec.session}, plain job")
    return {"plain": _batches(plain), **_gated(spark, spec)}


def _gated(spark: Any, spec: ConnectSpec) -> dict[str, Any]:
    with h.gated_site(spark, latency=spec.latency) as site:
        stream = h.flood(spark, spec.rate, spec.calm)
        gated = h.heavy(site.gate(stream, query="q", source="s", strata="key", id="_offset"))

        def start(directory: str) -> Any:
            return h.sink(gated, directory).trigger(processingTime=h.TRIGGER).start()

        query = h.run_for(start, spec.calm + spec.flood, say=f"{spec.session}, gated job")
        recorded = h.record(query, spec.rate, h.flood_profile(spec.calm))
        of_ledger = {entry.batch: entry.admitted for entry in site.ledger}
        recorded.batches = [  # a client is not told the names of what is observed
            replace(batch, admitted=of_ledger[batch.batch]) for batch in recorded.batches
        ]
        flood = recorded.batches[0].oldest + spec.calm
        late = flood + spec.flood / 4  # until the plan has settled
        settled = [batch for batch in recorded.batches if batch.oldest > late]
        arrived, admitted, shed = site.ledger.total()
        calm = {batch.batch for batch in recorded.batches if batch.newest < flood}
        return {
            "p95_seconds": h.p95(settled),
            "median_seconds": h.quantile(settled, 0.5),
            "source_tuples": h.tuples_of(h.batches_of(query)[-1])[1],
            "arrived": arrived,
            "admitted": admitted,
            "shed": shed,
            "balanced": site.ledger.balanced,
            "versions": len({entry.version for entry in site.ledger}),
            "calm": [row for row in _batches(query) if row["batch"] in calm],
            "batches": recorded.as_json(),
        }


def _batches(query: Any) -> list[dict[str, float]]:
    told = [Progress.of(progress.json) for progress in query.recentProgress]
    return [
        {"batch": p.batch, "ms": 1000 * p.seconds, "planning_ms": 1000 * p.planning}
        for p in told
        if p.rows
    ]


@contextmanager
def connected() -> Iterator[Any]:
    """Starts a server of Spark Connect on a free port of this machine, and a client of it."""
    builder: Any = SparkSession.builder
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:  # Spark may still write
        remote = _client(builder, directory)
        try:
            yield remote
        finally:
            remote.stop()


def _client(builder: Any, directory: str) -> Any:
    settings = {
        **h.SETTINGS,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.local.dir": directory,
        "spark.sql.session.timeZone": "UTC",
    }
    made = builder.remote(settings.pop("spark.master")).config(map=settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a client cannot change what the server begins with
        return made.getOrCreate()


def main(spec: ConnectSpec) -> None:
    """Runs one, and prints what it saw."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if spec.session == CLASSIC:
        with h.bench_session() as spark:
            told = run(spark, spec)
    else:
        with connected() as spark:
            told = run(spark, spec)
    print(HEAD + json.dumps({**asdict(spec), **told}), flush=True)


if __name__ == "__main__":
    main(ConnectSpec(**json.loads(sys.argv[1])))
