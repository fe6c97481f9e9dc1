"""``field-outage``: a calm job whose broker is killed and comes back."""

from typing import Any

from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say

RATE = 15_000.0
CAPACITY_FACTOR = 2.0
SECONDS = 45.0
DOWN_SECONDS = 12.0
BATCHES_THAT_MAY_SHED = 3
CLAIMS = (
    Claim("kept", "admitted from the fourth batch after it is back", least=0.99),
    Claim("kept_before", "admitted in the calm before", least=0.99),
    Claim("unaccounted", "tuples by which ledger and offsets differ", least=0, most=0),
    Claim("goes_on", "batches after it is back", least=BATCHES_THAT_MAY_SHED + 2),
)


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Makes so many outages."""
    load = 20 if options.short else stand.load_for(CAPACITY_FACTOR * RATE)
    runs = [_one(stand, load, options) for _ in range(options.runs)]
    return {"rate": RATE, "load": load, "target": TARGET_SECONDS, **summed_up(runs, CLAIMS)}


def _one(stand: Stand, load: int, options: FieldOptions) -> dict[str, Any]:
    seconds, topic = options.seconds or SECONDS, stand.topic()
    down = min(DOWN_SECONDS, seconds)
    say(f"the broker killed after {seconds:.0f} s, for {down:.0f} s")
    with (
        stand.feed(topic, (0.0, RATE)) as feed,
        stand.job(topic, load=load, starting="earliest") as job,
    ):
        job.wait_for_start()
        job.wait_for_batches(3)
        job.wait(seconds)
        known = len(job.told("progress"))
        stand.broker.kill()
        job.wait(down)
        stand.broker.restart()
        job.wait_for_batches(known + BATCHES_THAT_MAY_SHED + 2)
        job.wait(seconds)
        feed.end()
        job.stop()
        run, ledger = stand.run_of(job), job.told("ledger")[-1]
    # the batch that was running may have ended before the broker was gone, or after it was back
    later = run.batches[known + 1 + BATCHES_THAT_MAY_SHED :]
    calm = [batch for batch in run.batches[:known] if batch.ended > run.started + seconds / 2]
    return {
        "kept": _kept(later),
        "kept_before": _kept(calm),
        "goes_on": len(run.batches) - known,
        "unaccounted": abs(ledger["total"][0] - sum(batch.arrived for batch in run.batches)),
        "outage_after_batches": known,
        "batches": run.as_json(),
    }


def _kept(batches: Any) -> float:
    arrived = sum(batch.arrived for batch in batches)
    return sum(batch.admitted for batch in batches) / arrived if arrived else float("nan")
