"""``field-neighbour``: a core that somebody else takes, and a producer that is heavy itself."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from penstock.lab.field.child import dies_with_us
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import FieldRun
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say

SETTLING = 60.0
CORE_TAKEN = 20.0
AFTERWARDS = 30.0
RECOVERY = 5.0
HEAVY_RATE, HEAVY_OVERLOAD = 100_000.0, 6.0
HEAVY_SECONDS = 120.0
HEAVY_SETTLING = 40.0
CASES = ("core", "producer")
CORE_CLAIMS = (
    Claim("meanwhile", "oldest tuple while a core is taken, of target", most=1.5),
    Claim("afterwards", "oldest tuple from 5 s after it is back, of target", most=1.1),
)
PRODUCER_CLAIMS = (
    Claim("p95", "p95 beside a producer of 100,000/s, of target", most=1.1),
    Claim("varies", "admitted a batch, deviation over mean", most=0.3),
    Claim("kept", "share admitted: without overload the other two say nothing", most=0.9),
)


@contextmanager
def a_core_taken() -> Iterator[None]:
    """Keeps one core busy for the time."""
    command = [*dies_with_us(), sys.executable, "-c", "while True: pass"]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Runs both cases so many times."""
    told = {}
    for case in options.one_of(CASES):
        one, claims = {
            "core": (_core, CORE_CLAIMS),
            "producer": (_producer, PRODUCER_CLAIMS),
        }[case]
        told[case] = summed_up([one(stand, options) for _ in range(options.runs)], claims)
    holds = {text: held for each in told.values() for text, held in each["holds"].items()}
    return {"target": TARGET_SECONDS, "cases": told, "holds": holds}


def _core(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    load = 20 if options.short else stand.load_for(40_000 / 6)
    settling = SETTLING if options.seconds is None else options.seconds
    taken, after = (min(each, settling) for each in (CORE_TAKEN, AFTERWARDS))
    topic = stand.topic()
    say(f"a core taken away after {settling:.0f} s, for {taken:.0f} s")
    with stand.feed(topic, (0.0, 40_000.0)), stand.job(topic, load=load) as job:
        job.wait_for_start()
        job.wait_for_batches(2)
        job.wait(settling)
        began = time.time()
        with a_core_taken():
            job.wait(taken)
        ended = time.time()
        job.wait(after)
        job.stop()
        run = stand.run_of(job)
    began, ended = began - run.started, ended - run.started
    return {
        "meanwhile": run.worst(began, ended) / TARGET_SECONDS,
        "afterwards": run.worst(ended + RECOVERY) / TARGET_SECONDS,
        "before": run.worst(began - 20, began) / TARGET_SECONDS,
        "taken": [began, ended],
        "batches": run.as_json(),
    }


def _producer(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    load = 20 if options.short else stand.load_for(HEAVY_RATE / HEAVY_OVERLOAD)
    seconds = HEAVY_SECONDS if options.seconds is None else options.seconds
    settling, topic = min(HEAVY_SETTLING, seconds / 3), stand.topic()
    say(f"beside a producer of 100,000/s ({settling + seconds:.0f} s)")
    with stand.feed(topic, (0.0, HEAVY_RATE)) as feed, stand.job(topic, load=load) as job:
        start = job.wait_for_start()
        job.wait_for_batches(2)
        job.wait(max(start + settling + seconds - time.time(), 0.0))
        job.stop()
        run = stand.run_of(job)
        producer = feed.end()
    return {
        "p95": run.p95(settling) / TARGET_SECONDS,
        "worst": run.worst(settling) / TARGET_SECONDS,
        "varies": varies(run, settling),
        "kept": kept(run, settling),
        "load": load,
        "producer": producer,
        "batches": run.as_json(),
    }


def varies(run: FieldRun, since: float) -> float:
    """Returns the deviation of the admitted number of a batch, over its mean."""
    admitted = np.array([batch.admitted for batch in run.between(since)], dtype=np.float64)
    return float(admitted.std() / admitted.mean()) if admitted.size else float("nan")


def kept(run: FieldRun, since: float) -> float:
    """Returns the share of what arrived that was admitted."""
    batches = run.between(since)
    arrived = sum(batch.arrived for batch in batches)
    return sum(batch.admitted for batch in batches) / arrived if arrived else float("nan")
