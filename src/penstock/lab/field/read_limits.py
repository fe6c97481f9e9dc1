"""``field-limits``: a job whose reading is limited, below what arrives and above it."""

import time
from typing import Any

from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import FieldRun
from penstock.lab.field.file_writer import FileWriter
from penstock.lab.field.job import RunningJob
from penstock.lab.field.stand import FieldOptions, Stand, say

SECONDS = 70.0
LATENCY = 3.0
RATE = 20_000.0
BELOW, ABOVE = 0.5, 3.0
"""The limit, in multiples of what arrives in an interval."""
BACKLOG_SECONDS = 60.0
ROWS_A_FILE = 2000
CASES = ("below", "backlog", "files-below", "files-backlog")
NAMES = {"below": "maxOffsetsPerTrigger", "files-below": "maxFilesPerTrigger"}


def claims_of(case: str) -> list[Claim]:
    """Returns what must hold of a case."""
    told = f"{case}: p95 that is told, of what it really is"
    claims = [Claim("told_of_truth", told, least=0.9, most=1.1)]
    if case in NAMES:
        return [*claims, Claim("named", f"{case}: {NAMES[case]} is named", least=1, most=1)]
    return [
        *claims,
        Claim("caught_up", f"{case}: time to catch up, of what the limit needs", most=1.3),
    ]


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Runs each case so many times."""
    told = {}
    for case in options.one_of(CASES):
        load = 20 if options.short else stand.load_for(3 * RATE)
        runs = [_one(stand, case, load, options) for _ in range(options.runs)]
        told[case] = {"load": load, **summed_up(runs, claims_of(case))}
    holds = {text: held for each in told.values() for text, held in each["holds"].items()}
    return {"rate": RATE, "target": LATENCY, "cases": told, "holds": holds}


def _one(stand: Stand, case: str, load: int, options: FieldOptions) -> dict[str, Any]:
    seconds, by_file = options.seconds or SECONDS, case.startswith("files")
    rate = RATE / 4 if options.short else RATE
    rows = round((ABOVE if case.endswith("backlog") else BELOW) * rate)
    waiting = min(BACKLOG_SECONDS, seconds) * rate if case.endswith("backlog") else 0.0
    limit = round(rows / ROWS_A_FILE) if by_file else rows
    say(f"{case}: a limit of {limit:,} with {rate:,.0f}/s arriving ({seconds:.0f} s)")
    options_of_job: dict[str, Any] = {"load": load, "limit": limit, "starting": "earliest"}
    if by_file:
        place = stand.place()
        with (
            FileWriter(place, rate, ROWS_A_FILE, backlog=round(waiting)),
            stand.job("", folder=place, **options_of_job) as job,
        ):
            return _measured(stand, job, case, seconds, waiting, rows - rate, rows)
    topic = stand.topic()
    with stand.feed(topic, (0.0, rate)) as feed:
        feed.wait_for(
            lambda: sum(stand.broker.ends(topic).values()) >= waiting,
            waiting / rate + 60,
            "backlog",
        )
        with stand.job(topic, **options_of_job) as job:
            return _measured(stand, job, case, seconds, waiting, rows - rate, rows)


def _measured(
    stand: Stand,
    job: RunningJob,
    case: str,
    seconds: float,
    waiting: float,
    gained: float,
    limit: int,
) -> dict[str, Any]:
    """Lets a job run and compares what is told of it with what happened.

    A limit alone gains so many tuples a second on what waits, once a batch takes an interval.
    """
    start = job.wait_for_start()
    job.wait_for_batches(3)
    job.wait(max(start + seconds - time.time(), 0.0))
    job.stop()
    run = stand.run_of(job)
    told = run.told[-1]["report"]["queries"]
    query = told[0] if told else {}
    truth, said = run.p95(0.0), query.get("latency_ms", {}).get("p95", float("nan")) / 1000
    found = {
        "truth_p95": truth,
        "told_p95": said,
        "told_of_truth": said / truth,
        "held_back_by": query.get("held_back_by"),
        "backlog": query.get("backlog"),
        "behind": run.batches[-1].behind,
        "admitted_share": sum(b.admitted for b in run.batches)
        / sum(b.arrived for b in run.batches),
        "ledger_equals_offsets": job.told("ledger")[-1]["total"][0]
        == sum(b.arrived for b in run.batches),
        "batches": run.as_json(),
    }
    if case in NAMES:
        return {**found, "named": int(query.get("held_back_by") == NAMES[case])}
    needs = _waiting_at(run, waiting) / max(gained, 1e-9)
    return {**found, "limit_needs": needs, "caught_up": caught_up(run, limit) / needs}


def _waiting_at(run: FieldRun, waiting: float) -> float:
    """Returns what waited when the first batch was planned, where the source tells."""
    first = run.batches[0]
    return max(float(first.arrived + first.behind), waiting)


def caught_up(run: FieldRun, limit: int) -> float:
    """Returns when the first batch was committed that the limit did not fill."""
    done = [b.ended - run.started for b in run.batches[1:] if b.arrived < 0.95 * limit]
    return min(done, default=float("nan"))
