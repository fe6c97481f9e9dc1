"""What the controller admits, of what the best fixed rate with the same latency admits.

A query gets faster for minutes, and how fast it becomes differs from run to run. So one query runs
through it all, and controller and fixed rates take turns at its gate.
"""

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from scipy.optimize import isotonic_regression

from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.errors import PenstockError
from penstock.lab.bench import harness as h
from penstock.spark.site import Site

ROUNDS = 5
SWEEP_FACTORS = (0.8, 0.95, 1.1, 1.25, 1.4)
"""The fixed rates, in multiples of what the controller admitted in its last turns."""
TURNS_AVERAGED = 4
"""How many of the controller's last turns that is, since one turn may have been disturbed."""
COMPARED_QUANTILES = {"p95": 0.95, "median": 0.5}
"""What "the same latency" may mean. Where a machine is disturbed now and then, a fixed rate keeps
the controller's p95 only if it is low enough for the worst of times; the median shows others.
"""
SETTLING_SHARE_OF_TURN = 0.3
"""The part of a turn that does not count, since the turn before left tuples behind."""
FEWEST_BATCHES_PER_TURN = 3
"""The batches that a turn has at least; on a slow machine it goes on until it has had them."""


@dataclass
class Hold:
    """Holds the site at a rate, or at None where the controller decides."""

    rate: float | None = None


@dataclass(frozen=True)
class HeldController(Controller):
    """Learns as ever, and answers a fixed rate while it is held."""

    hold: Hold = field(default_factory=Hold)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        """Learns from the report, and returns the plan of the held rate, if any."""
        state, plan = super().step(state, report)
        if self.hold.rate is None:
            return state, plan
        return state, Plan(plan.version, default_rate=self.hold.rate, default_sic=1e-6)


@dataclass(frozen=True)
class Turn:
    """Is a turn of the controller or of a fixed rate, in seconds since the epoch."""

    start: float
    end: float
    factor: float | None = None
    """Of the sweep, or None where the controller decided."""
    share: float | None = None
    """The rate that was fixed."""

    @property
    def counts_from(self) -> float:
        """Returns from when on the turn's batches count."""
        return self.start + SETTLING_SHARE_OF_TURN * (self.end - self.start)

    def of(self, recorded: h.Recorded) -> list[h.BatchRecord]:
        """Returns the batches that count in this turn."""
        return [b for b in recorded.batches if self.counts_from <= b.started < self.end]


@dataclass
class AlternatingTurns:
    """Says at each call whose turn it is, and whether all had theirs."""

    site: Site
    hold: Hold
    rate: float
    sweep: tuple[float, ...]
    length: float
    warm_up: float
    count: int
    done: list[Turn] = field(default_factory=list)
    _admitted: list[float] = field(default_factory=list)
    _began: float | None = None

    def __call__(self) -> bool:
        self._go_on(time.time())
        return len(self.done) >= self.count

    def _go_on(self, now: float) -> None:
        if self._began is None:
            if self.site.recent:
                self._began = now + self.warm_up
            return
        held = self.hold.rate
        factor = self.sweep[len(self.done) // 2 % len(self.sweep)]
        turn = Turn(self._began, now, None if held is None else factor, held)
        batches = [batch for batch in self.site.recent if batch.started >= turn.counts_from]
        if now < self._began + self.length or len(batches) < FEWEST_BATCHES_PER_TURN:
            return
        self.done.append(turn)
        self._began = now
        if held is not None:
            self.hold.rate = None
            return
        admitted = sum(batch.admitted for batch in batches) / (now - turn.counts_from)
        self._admitted.append(admitted)
        self.hold.rate = min(
            1.0, factor * float(np.median(self._admitted[-TURNS_AVERAGED:])) / self.rate
        )


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares what the controller admits with what fixed rates admit."""
    rate = h.FLOOD_FACTOR * h.heavy_throughput(spark, seconds / 3)
    calm, length = seconds / 4, max(seconds / 9, 3 * h.INTERVAL_SECONDS)
    sweep, rounds = (
        (SWEEP_FACTORS, ROUNDS) if seconds >= h.MEANINGFUL_SECONDS else (SWEEP_FACTORS[:2], 1)
    )
    a_round = 2 * len(sweep)
    count = a_round * rounds
    hold = Hold()
    with Site(
        spark, interval=h.INTERVAL_SECONDS, controller=partial(HeldController, hold=hold)
    ) as site:
        stream = h.flood(spark, rate, calm)
        gated = site.gate(stream, query="q", source="s", strata="key", id="_offset")
        turns = AlternatingTurns(site, hold, rate, sweep, length, 2 * calm, count)
        query = h.run_for(
            lambda directory: site.start(h.sink(h.heavy(gated), directory), name="q"),
            2 * calm + count * length,
            turns,
            "the controller and fixed rates in turn",
        )
    done = turns.done[:count]
    if len(done) < count:
        raise PenstockError(
            f"capacity: only {len(done)} of {count} turns had "
            f"{FEWEST_BATCHES_PER_TURN} batches; this machine is too busy to tell"
        )
    recorded = h.record(query, rate, h.flood_profile(calm))
    found = compared(recorded, done)
    without = [
        compared(recorded, [*done[:at], *done[at + a_round :]])
        for at in range(0, count, a_round)
        if rounds > 1
    ]
    return {
        "rate": rate,
        "overload": h.FLOOD_FACTOR,
        **found,
        "used_without_one_round": {
            latency: [each["used"][latency] for each in without] for latency in COMPARED_QUANTILES
        },
        "turns": [asdict(turn) for turn in done],
        "batches": recorded.as_json(),
        "holds": {
            f"capacity used, at the same {latency} (at least 0.9)": used >= 0.9
            for latency, used in found["used"].items()
        },
    }


def compared(recorded: h.Recorded, turns: list[Turn]) -> dict[str, Any]:
    """Compares the controller with the line through what the fixed rates admitted."""
    ours, *sweep = (
        _pooled([turn.of(recorded) for turn in turns if turn.factor == factor])
        for factor in (None, *sorted({turn.factor for turn in turns if turn.factor is not None}))
    )
    best = {latency: best_fixed(sweep, latency, ours[latency]) for latency in COMPARED_QUANTILES}
    return {
        "used": {
            latency: ours["admitted_per_second"] / best[latency] for latency in COMPARED_QUANTILES
        },
        "controller": ours,
        "best_fixed": best,
        "fixed": sweep,
    }


def _pooled(turns: list[list[h.BatchRecord]]) -> dict[str, float]:
    """Counts the time of a batch from its start to the next one's."""
    pairs = [pair for batches in turns for pair in pairwise(batches)]
    passed = sum(after.started - before.started for before, after in pairs)
    together = [batch for batches in turns for batch in batches]
    return {
        "admitted_per_second": sum(before.admitted for before, _ in pairs) / max(passed, 1e-9),
        **{latency: h.quantile(together, share) for latency, share in COMPARED_QUANTILES.items()},
    }


def best_fixed(sweep: list[dict[str, float]], latency: str, held: float) -> float:
    """Returns what a fixed rate of this latency admits, between those that were tried.

    Latency rises with the rate. Where it seems to fall, one of two was disturbed, and both count
    as their mean, in both: else the least disturbed would be taken for what the job can do. Where
    all are faster than asked, there is no end: what was not found is not claimed.
    """
    turns = sorted((turn["admitted_per_second"], turn[latency]) for turn in sweep)
    admitted, seconds = np.array(turns).T
    risen = isotonic_regression(seconds)
    starts = np.asarray(risen.blocks)[:-1]
    pooled = np.add.reduceat(admitted, starts) / np.asarray(risen.weights)
    return float(np.interp(held, np.asarray(risen.x)[starts], pooled, right=np.inf))
