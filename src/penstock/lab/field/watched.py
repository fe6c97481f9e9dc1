"""``field-watch``: a site that only watches changes nothing, and says what it would shed."""

import time
from importlib import import_module
from typing import Any

from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_truth import progress_of
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say

pq: Any = import_module("pyarrow.parquet")

RATE = 10_000.0
OVERLOAD = 4.0
"""By what a cold Spark can process; a warm one can do about twice as much."""
SECONDS = 90.0
MESSAGES = 200_000
"""Of which both jobs make results that are compared."""
LIMIT = 25_000
WOULD_SHED = "would_shed"
"""What a report calls the tuples that watching would have shed."""
CLAIMS = (
    Claim("rows_that_differ", "results that differ from the plain job's", least=0, most=0),
    Claim("shed_of_real", "what it would shed, of what a like run sheds", least=0.9, most=1.1),
)


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Compares so many times."""
    load = 20 if options.short else stand.load_for(RATE / OVERLOAD)
    runs = [_one(stand, load, options) for _ in range(options.runs)]
    return {"rate": RATE, "load": load, "target": TARGET_SECONDS, **summed_up(runs, CLAIMS)}


def _one(stand: Stand, load: int, options: FieldOptions) -> dict[str, Any]:
    topic = _filled(stand)
    plain, watched = (results(stand, topic, each) for each in ("plain", "watch"))
    seconds = options.seconds or SECONDS
    shed = {each: _shed(stand, each, load, seconds) for each in ("gated", "watch")}
    return {
        "rows": len(plain),
        "rows_that_differ": len(set(plain.items()) ^ set(watched.items())),
        "shed": shed,
        "shed_of_real": shed["watch"] / shed["gated"] if shed["gated"] else float("nan"),
    }


def _filled(stand: Stand) -> str:
    """Returns a topic with all the messages, which both jobs read in the same batches."""
    topic = stand.topic()
    with stand.feed(topic, (0.0, RATE)) as feed:
        feed.wait_for(lambda: sum(stand.broker.ends(topic).values()) >= MESSAGES, 120, "messages")
        feed.end()
    return topic


def results(stand: Stand, topic: str, variant: str, **more: Any) -> dict[Any, Any]:
    """Returns what a job answers over a whole topic, by window and route."""
    sink, whole = stand.place(), sum(stand.broker.ends(topic).values())
    say(f"{variant}: results over {whole:,} messages")
    options = {"starting": "earliest", "limit": LIMIT, "load": 1, **more}
    options |= {"sink": sink, "checkpoint": stand.place()}
    with stand.job(topic, variant, **options) as job:
        job.wait_for(lambda: sum(row.rows for row in progress_of(job)) >= whole, 240, "the end")
        job.wait_for_batches(len(job.told("progress")) + 1)  # closes the windows before the last
        job.stop()
    return answers_in(sink)


def answers_in(sink: str) -> dict[Any, Any]:
    """Returns count, digest and mean of each window and route in a folder of results."""
    found = {}
    for row in pq.read_table(sink).to_pylist():
        mean = row["mean"]["value"] if isinstance(row["mean"], dict) else row["mean"]
        key = row["window"]["start"], row["route"]
        found[key] = (round(row["count"]), row["digest"], round(mean, 9))
    return found


def _shed(stand: Stand, variant: str, load: int, seconds: float) -> float:
    """Returns the share that a job says it shed, or would have shed."""
    topic = stand.topic()
    say(f"{variant}: what is shed ({seconds:.0f} s)")
    with stand.feed(topic, (0.0, RATE)), stand.job(topic, variant, load=load) as job:
        start = job.wait_for_start()
        job.wait_for_batches(3)
        job.wait(max(start + seconds - time.time(), 0.0))
        job.stop()
        (query,) = job.told("told")[-1]["report"]["queries"]
    name = "shed" if variant == "gated" else WOULD_SHED
    return float(query.get(name, float("nan")) / max(query["arrived"], 1))
