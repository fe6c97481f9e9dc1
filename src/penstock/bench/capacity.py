"""What the controller admits, of what the best fixed rate with the same latency admits.

A query gets faster for minutes, and how fast it becomes is a matter of luck. So one query runs
through it all, and controller and fixed rates take turns at its gate.
"""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from scipy.optimize import isotonic_regression

from penstock.bench import harness as h
from penstock.spark.gate import Gate
from penstock.spark.site import Site
from penstock.spark.wire import Shipment
from penstock.types import Plan

OVERLOAD = 10.0
ROUNDS = 3
SWEEP = (0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
"""Fixed rates, in what the controller admitted in its turn just before."""
SETTLE = 0.25
"""The part of a turn that does not count: it has what the one before left behind."""
FEWEST_BATCHES = 3


class HeldSite(Site):
    """A site that can be held at a fixed rate; then nobody spends time on deciding."""

    held: float | None = None

    def _next_shipment(self, gate: Gate) -> Shipment:
        if self.held is None:
            return super()._next_shipment(gate)
        plan = Plan(self.plan.version, default_rate=self.held, default_sic=1e-6)
        return gate.shipment(plan, counting=True)


@dataclass(frozen=True)
class Turn:
    share: float | None
    """The rate that was fixed, or None where the controller decided."""
    start: float
    end: float

    def of(self, recorded: h.Recorded) -> list[h.BatchRecord]:
        first = self.start + SETTLE * (self.end - self.start)
        return [batch for batch in recorded.batches if first <= batch.started < self.end]


@dataclass
class Turns:
    """Called now and then, it says whose turn it is."""

    site: HeldSite
    rate: float
    sweep: tuple[float, ...]
    length: float
    warm_up: float
    done: list[Turn] = field(default_factory=list)
    _began: float | None = None

    def __call__(self) -> None:
        now = time.time()
        if self._began is None:
            if self.site.recent:
                self._began = now + self.warm_up
            return
        if now < self._began + self.length:
            return
        self.done.append(Turn(self.site.held, self._began, now))
        if self.site.held is None:
            factor = self.sweep[len(self.done) // 2 % len(self.sweep)]
            self.site.held = min(1.0, factor * self._admitted_in(self.done[-1]) / self.rate)
        else:
            self.site.held = None
        self._began = now

    def _admitted_in(self, turn: Turn) -> float:
        first = turn.start + SETTLE * (turn.end - turn.start)
        batches = [batch for batch in self.site.recent if batch.started >= first]
        return sum(batch.admitted for batch in batches) / max(turn.end - first, 1e-9)


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    rate = OVERLOAD * h.heavy_throughput(spark, seconds / 3)
    calm, length = seconds / 4, max(seconds / 6, 3.0)
    sweep, count = (SWEEP, ROUNDS) if seconds >= h.WHOLE else (SWEEP[1:4:2], 1)
    a_round = 2 * len(sweep)
    with HeldSite(spark, interval=h.INTERVAL) as site:
        stream = h.flood(spark, rate, calm)
        gated = site.gate(stream, query="q", source="s", strata="key", id="_offset")
        turns = Turns(site, rate, sweep, length, warm_up=2 * calm)
        query = h.run_for(
            lambda directory: site.start(h.sink(h.heavy(gated), directory), query="q"),
            2 * calm + (a_round * count + 1) * length,
            turns,
            "the controller and fixed rates in turn",
        )
    recorded = h.record(query, rate, h.flood_profile(calm))
    done = turns.done[: a_round * count]
    found = [_round(recorded, done[at : at + a_round]) for at in range(0, len(done), a_round)]
    used = float(np.median([each["used"] for each in found]))
    return {
        "rate": rate,
        "overload": OVERLOAD,
        "capacity_used": used,
        "capacity_used_each_round": [each["used"] for each in found],
        "rounds": found,
        "turns": [asdict(turn) for turn in done],
        "batches": recorded.as_json(),
        "holds": {"capacity used (at least 0.9)": used >= 0.9},
    }


def _round(recorded: h.Recorded, turns: list[Turn]) -> dict[str, Any]:
    ours = [batch for turn in turns if turn.share is None for batch in turn.of(recorded)]
    sweep = [
        {"share": turn.share, "p95": h.p95(batches), "admitted_per_second": _per_second(batches)}
        for turn in turns
        if turn.share is not None and len(batches := turn.of(recorded)) >= FEWEST_BATCHES
    ]
    admitted = float(
        np.mean([_per_second(turn.of(recorded)) for turn in turns if turn.share is None])
    )
    p95 = h.p95(ours)
    best = best_fixed(sweep, p95)
    return {
        "used": admitted / best,
        "admitted": admitted,
        "best_fixed": best,
        "p95": p95,
        "sweep": sweep,
    }


def _per_second(batches: list[h.BatchRecord]) -> float:
    """By the time from one batch's start to the next one's."""
    if len(batches) < 2:
        return 0.0
    passed = batches[-1].started - batches[0].started
    return sum(batch.admitted for batch in batches[:-1]) / passed


def best_fixed(sweep: list[dict[str, float]], p95: float) -> float:
    """What a fixed rate of this latency admits, by a straight line between those that were tried.

    Latency rises with the rate. Where it seems to fall, one of two turns had luck, and both count
    as their mean: else the luckiest of all would be taken for what the job can do. Where all of
    them are faster than asked, there is no end: what was not found is not claimed.
    """
    if not sweep:
        return float("inf")
    turns = sorted((turn["admitted_per_second"], turn["p95"]) for turn in sweep)
    admitted, latency = np.array(turns).T
    rising = np.asarray(isotonic_regression(latency).x)
    return float(np.interp(p95, rising, admitted, right=np.inf))
