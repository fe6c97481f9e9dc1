"""``field-start``: a job that starts on a cold JVM while more arrives than it can process."""

import time
from dataclasses import dataclass
from typing import Any

from penstock.lab.bench.best_fixed_rate import best_fixed
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import FieldRun
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say

LATE = 1.5 * TARGET_SECONDS
SETTLED_FROM = 35.0
SECONDS = 150.0
SWEEP = (0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
SWEEP_WARM_UP = 50.0
"""Seconds from the start of the process, in which the JVM warms up."""
TURN = 15.0
SETTLING_SHARE_OF_TURN = 0.3
FEWEST_BATCHES_PER_TURN = 2


@dataclass(frozen=True)
class StartCase:
    """Says how much arrives a second, and how much of it the plain job can process."""

    rate: float
    overload: float
    dearer: float = 1.0
    """How many times the work of a tuple is that of the first case."""
    longest_late: float = 25.0


CASES = {
    "six-fold": StartCase(40_000, 6.0),
    "fifteen-fold": StartCase(25_000, 15.0, dearer=4.0),
    "light": StartCase(25_000, 1.3, longest_late=12.0),
}


def claims_of(name: str, case: StartCase) -> list[Claim]:
    """Returns what must hold of a case."""
    early = [Claim("late_until", f"{name}: seconds until fresh", most=case.longest_late)]
    if case.overload < 2:
        kept = "of what the settled job admits, admitted from 60 s on"
        return [*early, Claim("early_share", f"{name}: {kept}", least=0.95)]
    return [
        *early,
        Claim("p95", f"{name}: p95 from 35 s on", most=TARGET_SECONDS),
        Claim("worst", f"{name}: oldest tuple of a batch from 35 s on", most=LATE),
        Claim("early_share", f"{name}: admitted at 60 s, of that at 120 s", least=0.8),
        Claim("used", f"{name}: admitted, of what the best fixed rate admits", least=0.85),
    ]


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Runs each case so many times."""
    told = {}
    for name in options.one_of(list(CASES)):
        case = CASES[name]
        load = 20 if options.short else _load(stand, case)
        runs = [_one(stand, case, load, options) for _ in range(options.runs)]
        told[name] = {"load": load, "rate": case.rate, **summed_up(runs, claims_of(name, case))}
    holds = {text: held for each in told.values() for text, held in each["holds"].items()}
    return {"target": TARGET_SECONDS, "cases": told, "holds": holds}


def _load(stand: Stand, case: StartCase) -> int:
    if case.dearer > 1:
        first = CASES["six-fold"]
        return round(case.dearer * stand.load_for(first.rate / first.overload))
    return stand.load_for(case.rate / case.overload)


def _one(stand: Stand, case: StartCase, load: int, options: FieldOptions) -> dict[str, Any]:
    seconds, topic = options.seconds or SECONDS, stand.topic()
    with stand.feed(topic, (0.0, case.rate)) as feed:
        say(f"cold start at {case.rate:,.0f}/s, load {load} ({seconds:.0f} s)")
        with stand.job(topic, load=load) as job:
            job.wait_for_start()
            job.wait_for_batches(2)
            job.wait(max(job.wait_for_start() + seconds - time.time(), 0.0))
            job.stop()
            run = stand.run_of(job)
        found = figures(run, seconds)
        found["ledger_equals_offsets"] = job.told("ledger")[-1]["total"][0] == sum(
            batch.arrived for batch in run.batches
        )
        if case.overload >= 2:
            found |= _swept(stand, case, load, topic, found, options)
        found["producer"] = feed.end()
    return {**found, "batches": run.as_json()}


def figures(run: FieldRun, seconds: float) -> dict[str, Any]:
    """Returns what the claims are about."""
    last = max(seconds - 30.0, seconds / 2)
    settled = run.admitted_per_second(last, seconds)
    return {
        "late_until": run.late_until(LATE, SETTLED_FROM + 30),
        "stale": run.stale_seconds(LATE, min(SETTLED_FROM + 30, seconds)),
        "p95": run.p95(SETTLED_FROM),
        "worst": run.worst(SETTLED_FROM),
        "admitted_per_second": settled,
        "settled_p95": run.p95(last),
        "early_share": run.admitted_per_second(50, 70) / settled,
    }


def _swept(
    stand: Stand,
    case: StartCase,
    load: int,
    topic: str,
    found: dict[str, Any],
    options: FieldOptions,
) -> dict[str, Any]:
    """Compares with a plain filter in front of the same job, at one rate after the other."""
    ours = found["admitted_per_second"] / case.rate
    if options.short or not ours > 0:
        return {"used": None}
    begin = time.time() + SWEEP_WARM_UP
    turns = [(begin + TURN * at, min(ours * factor, 1.0)) for at, factor in enumerate(SWEEP)]
    say(f"fixed rates ({SWEEP_WARM_UP + TURN * len(SWEEP):.0f} s)")
    with stand.job(topic, "fixed", load=load, shares=[(0.0, turns[0][1]), *turns]) as job:
        job.wait_for_batches(1)
        job.wait(max(begin + TURN * len(SWEEP) - time.time(), 0.0))
        job.stop()
        run = stand.run_of(job)
    sweep = [turn for start, _ in turns if (turn := _turn(run, start)) is not None]
    best = best_fixed(sweep, "p95", found["settled_p95"]) if len(sweep) > 1 else float("nan")
    return {"fixed": sweep, "best_fixed": best, "used": found["admitted_per_second"] / best}


def _turn(run: FieldRun, start: float) -> dict[str, float] | None:
    """Returns what a fixed rate admitted and how late, by the batches of its turn alone."""
    first, last = (start + share * TURN for share in (SETTLING_SHARE_OF_TURN, 1.0))
    mine = [batch for batch in run.batches if first <= batch.oldest and batch.newest <= last]
    if len(mine) < FEWEST_BATCHES_PER_TURN:
        return None
    passed = sum(batch.newest - batch.oldest for batch in mine)
    part = FieldRun(run.started, mine)
    return {
        "admitted_per_second": sum(batch.admitted for batch in mine) / max(passed, 1e-9),
        "p95": part.p95(0.0),
    }
