"""``field-rivals``: what else one could put in front of the same overloaded job, in one table."""

import math
import time
from importlib import import_module
from typing import Any

import numpy as np

from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say
from penstock.lab.field.watched import answers_in, results

pq: Any = import_module("pyarrow.parquet")

RATE = 40_000.0
OVERLOAD = 6.0
SECONDS = 120.0
SETTLING = 60.0
CLAIMS = (
    Claim("gated_p95", "Penstock's p95, of target", most=1.0),
    Claim("gated_coverage", "Penstock's intervals that cover the true mean", least=0.9),
)
FEWEST_TUPLES = 30
"""Of a group whose interval is judged."""


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Runs all rivals so many times, on streams that are alike."""
    load = 20 if options.short else stand.load_for(RATE / OVERLOAD)
    runs = [_one(stand, load, options) for _ in range(options.runs)]
    return {"rate": RATE, "load": load, "target": TARGET_SECONDS, **summed_up(runs, CLAIMS)}


def _one(stand: Stand, load: int, options: FieldOptions) -> dict[str, Any]:
    can = RATE / OVERLOAD
    share = 0.8 / OVERLOAD
    rivals: dict[str, dict[str, Any]] = {
        "plain": {"variant": "plain"},
        "plain with a limit": {"variant": "plain", "limit": round(can)},
        "fixed rate": {"variant": "fixed", "shares": [(0.0, share)]},
        "dynamic sampler": {"variant": "refinery", "goal": share * RATE},
        "penstock": {"variant": "gated"},
    }
    asked = options.one_of(list(rivals))
    table = {name: _rival(stand, load, options, **rivals[name]) for name in asked}
    ours = table.get("penstock", {"p95": math.nan, "coverage": math.nan})
    return {
        "table": table,
        "gated_p95": ours["p95"] / TARGET_SECONDS,
        "gated_coverage": ours["coverage"],
    }


def _rival(stand: Stand, load: int, options: FieldOptions, **rival: Any) -> dict[str, Any]:
    seconds, topic, sink = options.seconds or SECONDS, stand.topic(), stand.place()
    settling = min(SETTLING, seconds / 2)
    say(f"{rival['variant']} ({seconds:.0f} s)")
    kept = {"sink": sink, "checkpoint": stand.place()}
    with stand.feed(topic, (0.0, RATE)) as feed:
        with stand.job(topic, load=load, starting="earliest", **kept, **rival) as job:
            start = job.wait_for_start()
            job.wait_for_batches(1)
            job.wait(max(start + seconds - time.time(), 0.0))
            ended = time.time()
            job.stop()
            run = stand.run_of(job)
        feed.end()
    late = run.between(settling)
    behind = late[-1].behind if late else 0
    arrived = sum(batch.arrived for batch in late) + behind
    truth = results(stand, topic, "plain", limit=None)
    return {
        "p95": run.p95(settling),
        "newest_result_is_old": ended - max(batch.newest for batch in run.batches),
        "answered": sum(batch.admitted for batch in late) / max(arrived, 1),
        **_errors(sink, truth, rival),
    }


def _errors(sink: str, truth: dict[Any, Any], rival: dict[str, Any]) -> dict[str, float]:
    """Compares means and counts with those over the whole topic."""
    scale = 1 / rival["shares"][0][1] if "shares" in rival else 1.0
    pairs = [(got, truth[key]) for key, got in answers_in(sink).items() if key in truth]
    means = [abs(got[2] / true[2] - 1) for got, true in pairs]
    counts = [abs(scale * got[0] / true[0] - 1) for got, true in pairs]
    return {
        "error_of_means": float(np.mean(means)) if means else math.nan,
        "error_of_counts": float(np.mean(counts)) if counts else math.nan,
        "coverage": _coverage(sink, truth),
        "groups": len(pairs),
    }


def _coverage(sink: str, truth: dict[Any, Any]) -> float:
    """Returns the share of intervals that cover the true mean, where there are intervals."""
    covered = [
        row["mean"]["low"] <= truth[key][2] <= row["mean"]["high"]
        for row in pq.read_table(sink).to_pylist()
        if isinstance(row["mean"], dict)
        and (key := (row["window"]["start"], row["route"])) in truth
        and truth[key][0] >= FEWEST_TUPLES
    ]
    return float(np.mean(covered)) if covered else math.nan
