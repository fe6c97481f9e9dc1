"""``field-five``: five queries of a job file that start together on a cold JVM."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import penstock
from penstock.errors import PenstockError
from penstock.lab.bench.harness import BatchRecord, quantile, stream_start, tuples_of
from penstock.lab.field.child import Child
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import progress_of
from penstock.lab.field.stand import FieldOptions, say
from penstock.sources.schedule import SECOND, Schedule
from penstock.spark.progress import Progress

RATE = 60_000.0
SECONDS = 60.0
LATENCY_SECONDS = 8.0
"""What ``examples/five.yaml`` asks for."""
COUNTS_FROM = 20.0
CLAIMS = (
    Claim("p95", "p95 from 20 s on, in seconds", most=1.25 * LATENCY_SECONDS),
    Claim("apart", "SIC of the queries, apart from each other", most=0.10),
)


def run(options: FieldOptions) -> dict[str, Any]:
    """Runs the example so many times."""
    path = Path(penstock.__file__).parents[2] / "examples" / "five.yaml"
    if not path.exists():
        raise PenstockError(f"field-five needs Penstock's sources; there is no {path}")
    runs = [_one(path, options.seconds or SECONDS) for _ in range(options.runs)]
    return {"rate": RATE, "target": LATENCY_SECONDS, **summed_up(runs, CLAIMS)}


def _one(path: Path, seconds: float) -> dict[str, Any]:
    say(f"five queries from cold ({seconds:.0f} s)")
    os.environ["RATE"] = f"{RATE:.0f}"
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        spec = {"path": str(path)}
        with Child("penstock.lab.field.five_job", spec, Path(folder), "five") as job:
            job.wait_for(lambda: job.told("starting"), 120, "its start")
            job.wait(seconds)
            job.wait_for(lambda: len(progress_of(job)) > 5, 120, "more than five batches")
            job.wait_for(lambda: job.told("told"), 60, "a report")
            job.stop()
            started, told = job.told("starting")[0]["at"], job.told("told")[-1]["report"]
            batches = [(row.name, _record(row)) for row in progress_of(job)]
            ledger = job.told("ledger")[-1]
    late = [batch for _, batch in batches if batch.ended >= started + COUNTS_FROM]
    sic = {query["id"]: query["sic"] for query in told["queries"]}
    return {
        "p95": quantile(late, 0.95),
        "p95_by_query": {
            name: quantile([b for n, b in batches if n == name and b in late], 0.95)
            for name in sorted({name or "" for name, _ in batches})
        },
        "told_p95": {q["id"]: q["latency_ms"]["p95"] / 1000 for q in told["queries"]},
        "sic": sic,
        "apart": max(sic.values()) - min(sic.values()) if sic else float("nan"),
        "ledger_balanced": ledger["balanced"],
        "ledger_equals_offsets": ledger["total"][0] == sum(batch.arrived for _, batch in batches),
    }


def _record(row: Progress) -> BatchRecord:
    first, stop = tuples_of(row)
    schedule = Schedule(int(stream_start(row) * SECOND), RATE, ())
    oldest, newest = schedule.arrival_of(np.array([first, stop - 1])).astype(np.int64) / 1e6
    gates = [seen["admitted"] for seen in row.observed.values() if "admitted" in seen]
    admitted = gates[0] if gates else stop - first
    return BatchRecord(
        row.batch, row.started, row.ended, stop - first, admitted, float(oldest), float(newest)
    )
