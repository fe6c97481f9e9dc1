"""``field-kill``: a driver that is killed under overload, and restarted a minute later."""

import time
from typing import Any

from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import FieldRun, committed
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say

RATE = 20_000.0
OVERLOAD = 3.0
SECONDS = 45.0
DOWN_SECONDS = 60.0
CLAIMS = (
    Claim("fresh_after", "seconds from the restarted query's start until fresh", most=30.0),
    Claim("told_of_truth", "p95 that is told, of what it really is", least=0.9, most=1.1),
    Claim("unaccounted", "tuples by which ledger and offsets differ", least=0, most=0),
    Claim("batches_missing", "batches that the ledger lacks", least=0, most=0),
)


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Kills and restarts so many times."""
    load = 20 if options.short else stand.load_for(RATE / OVERLOAD)
    runs = [_one(stand, load, options) for _ in range(options.runs)]
    return {"rate": RATE, "load": load, "target": TARGET_SECONDS, **summed_up(runs, CLAIMS)}


def _one(stand: Stand, load: int, options: FieldOptions) -> dict[str, Any]:
    seconds = options.seconds or SECONDS
    down = DOWN_SECONDS if options.seconds is None else min(DOWN_SECONDS, seconds)
    topic = stand.topic()
    kept = {"site": stand.place(), "checkpoint": stand.place()}
    say(f"killed after {seconds:.0f} s, restarted after {down:.0f} s")
    with stand.feed(topic, (0.0, RATE)) as feed:
        with stand.job(topic, load=load, starting="earliest", **kept) as first:
            first.wait_for_start()
            first.wait_for_batches(3)
            first.wait(seconds)
            first.kill()
            before = stand.run_of(first)
        feed.wait(down)
        with stand.job(topic, load=load, starting="earliest", **kept) as second:
            start = second.wait_for_start()
            second.wait_for_batches(3)
            second.wait(max(start + seconds - time.time(), 0.0))
            second.stop()
            after = stand.run_of(second)
            ledger = second.told("ledger")[-1]
    truth, said = after.p95(0.0), told_p95(after)
    last, offsets = committed(kept["checkpoint"])
    return {
        "fresh_after": after.late_until(1.5 * TARGET_SECONDS, 60.0),
        "truth_p95": truth,
        "told_p95": said,
        "told_of_truth": said / truth,
        "unaccounted": abs(ledger["total"][0] - offsets),
        "ledger_balanced": ledger["balanced"],
        "batches_missing": len(set(range(last + 1)) - set(ledger["batches"])),
        "before": before.as_json(),
        "after": after.as_json(),
    }


def told_p95(run: FieldRun) -> float:
    """Returns the 95th percentile of the latency that Penstock told last, in seconds."""
    told = [query for row in run.told for query in row["report"]["queries"]]
    return told[-1]["latency_ms"]["p95"] / 1000 if told else float("nan")
