"""``field-fair``: 600 tenants of very different size, three times too much."""

import time
from typing import Any

import numpy as np

from penstock.core.fairness import jain
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import TARGET_SECONDS, FieldOptions, Stand, say

RATE = 30_000.0
OVERLOAD = 3.0
TENANTS = 600
SECONDS = 120.0
SETTLING = 60.0
LARGEST = 20
CLAIMS = (
    Claim("jain_least", "Jain's index over the STW, at every moment once settled", least=0.98),
    Claim(
        "small_above_large",
        "mean SIC of the smallest third above that of the largest twenty",
        least=-0.05,
        most=0.05,
    ),
)


def run(stand: Stand, options: FieldOptions) -> dict[str, Any]:
    """Runs so many times."""
    load = 20 if options.short else stand.load_for(RATE / OVERLOAD)
    runs = [_one(stand, load, options) for _ in range(options.runs)]
    return {"rate": RATE, "load": load, "tenants": TENANTS, **summed_up(runs, CLAIMS)}


def _one(stand: Stand, load: int, options: FieldOptions) -> dict[str, Any]:
    seconds, topic = options.seconds or SECONDS, stand.topic()
    settling = min(SETTLING, seconds / 2)
    say(f"{TENANTS} tenants ({seconds:.0f} s)")
    with (
        stand.feed(topic, (0.0, RATE), keys=TENANTS, spread="power law"),
        stand.job(topic, load=load, by_key=True, starting="earliest") as job,
    ):
        start = job.wait_for_start()
        job.wait_for_batches(3)
        job.wait(max(start + seconds - time.time(), 0.0))
        job.stop()
        run, ledger = stand.run_of(job), job.told("ledger")[-1]
    moments = [row["sic"] for row in run.told if row["at"] > run.started + settling and row["sic"]]
    names = sorted({name for moment in moments for name in moment})  # the largest first
    means = {name: float(np.mean([each.get(name, 0.0) for each in moments])) for name in names}
    values = list(means.values())
    small, large = np.mean(values[-len(values) // 3 :]), np.mean(values[:LARGEST])
    levels = [float(np.mean(list(moment.values()))) for moment in moments]
    return {
        "jain_least": min((jain(list(m.values())) for m in moments), default=float("nan")),
        "small_above_large": float(small - large),
        "smallest_third": float(small),
        "largest_twenty": float(large),
        "level_least": min(levels, default=float("nan")),
        "level_most": max(levels, default=float("nan")),
        "tenants_seen": len(names),
        "p95": run.p95(settling) / TARGET_SECONDS,
        "ledger_equals_offsets": ledger["total"][0] == sum(b.arrived for b in run.batches),
        "batches": run.as_json(),
    }
