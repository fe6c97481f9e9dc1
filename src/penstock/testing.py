"""For tests of policies, controllers and jobs: a plant to control, without Spark and without
waiting.

>>> from penstock.controller import Controller
>>> from penstock.settings import Settings
>>> plant = Plant({Stratum("q", "s"): 100_000.0}, Cost(fixed=0.2, arriving=1e-7, admitting=2e-5))
>>> runs = plant.run(Controller(Settings(interval=1.0)), batches=30)
>>> all(run.latency <= 2.0 for run in runs[10:])
True
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.controller import Controller
from penstock.state import State
from penstock.types import Batch, Count, Outlook, Plan, Report, Stratum

Rates = Mapping[Stratum, float]
"""Tuples a second."""


@dataclass(frozen=True)
class Cost:
    """What a batch really costs, in seconds."""

    fixed: float
    arriving: float
    admitting: float

    def seconds(self, arrived: float, admitted: float) -> float:
        return self.fixed + self.arriving * arrived + self.admitting * admitted


@dataclass(frozen=True)
class Run:
    """One batch of the plant as it went."""

    started: float
    seconds: float
    waited: float
    plan: Plan
    counts: Mapping[Stratum, Count]

    @property
    def ended(self) -> float:
        return self.started + self.seconds

    @property
    def latency(self) -> float:
        """Of the oldest tuple in the batch."""
        return self.waited + self.seconds

    @property
    def arrived(self) -> int:
        return sum(count.arrived for count in self.counts.values())

    @property
    def admitted(self) -> int:
        return sum(count.admitted for count in self.counts.values())


@dataclass
class Plant:
    """Micro-batches in virtual time.

    ``arrivals`` and ``cost`` are constants or functions of time. A batch starts when the
    interval is over and the last batch is done; all that arrived since the last start is in it.
    Batch k's report reaches the controller ``lag`` batches later (1: before the next batch).
    ``noise`` is the standard deviation of the log of a batch's time; ``slow_start`` multiplies
    the times of the first batches. With ``peek`` the source tells how much waits.
    """

    arrivals: Rates | Callable[[float], Rates]
    cost: Cost | Callable[[float], Cost]
    lag: int = 1
    noise: float = 0.0
    slow_start: tuple[float, ...] = ()
    peek: bool = True
    seed: int = 0
    outliers: Mapping[int, float] = field(default_factory=dict)
    """Batches that take so many times longer."""

    def run(self, controller: Controller, batches: int) -> list[Run]:
        rng = np.random.default_rng(self.seed)
        interval = controller.settings.interval
        state, runs, reports = State(), list[Run](), list[Batch]()
        start = interval
        for number in range(batches):
            previous = runs[-1].started if runs else 0.0
            arrived = self._arrived(previous, start)
            heard = [batch for batch in reports if batch.number <= number - self.lag]
            reports = reports[len(heard) :]
            outlook = Outlook(
                "plant", start - previous, sum(arrived.values()) if self.peek else None
            )
            state, plan = controller.step(state, Report(start, tuple(heard), outlook))
            counts = {s: Count(n, int(rng.binomial(n, plan.rate(s)))) for s, n in arrived.items()}
            seconds = self._cost(start).seconds(
                sum(c.arrived for c in counts.values()), sum(c.admitted for c in counts.values())
            )
            seconds *= self._trouble(number, rng)
            runs.append(Run(start, seconds, start - previous, plan, counts))
            reports.append(Batch("plant", number, start, seconds, counts))
            start = max(start + interval, start + seconds)
        return runs

    def _arrived(self, since: float, until: float) -> dict[Stratum, int]:
        steps = np.linspace(since, until, 65)
        middle = (steps[:-1] + steps[1:]) / 2
        totals: dict[Stratum, float] = {}
        for moment in middle if callable(self.arrivals) else [until]:
            rates = self.arrivals(float(moment)) if callable(self.arrivals) else self.arrivals
            share = (until - since) / (64 if callable(self.arrivals) else 1)
            for stratum, rate in rates.items():
                totals[stratum] = totals.get(stratum, 0.0) + rate * share
        return {stratum: round(total) for stratum, total in totals.items()}

    def _cost(self, now: float) -> Cost:
        return self.cost(now) if callable(self.cost) else self.cost

    def _trouble(self, number: int, rng: np.random.Generator) -> float:
        slow = self.slow_start[number] if number < len(self.slow_start) else 1.0
        return slow * self.outliers.get(number, 1.0) * float(np.exp(self.noise * rng.normal()))
