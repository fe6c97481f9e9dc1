"""For tests of policies, controllers and jobs: a plant to control, without Spark and without
waiting.

>>> from penstock.core.controller import Controller
>>> from penstock.core.settings import Settings
>>> from penstock.policy import get
>>> plant = Plant({Stratum("q", "s"): 100_000.0}, Cost(fixed=0.2, arriving=1e-7, admitting=2e-5))
>>> controller = Controller(Settings(policy=get("balance-sic")))
>>> runs = plant.run(controller, batches=30)
>>> all(run.latency <= 2.0 for run in runs[10:])
True
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.core.controller import Controller
from penstock.core.demand import Demand, Queries
from penstock.core.state import State
from penstock.core.types import Batch, Count, Plan, Report, Stratum, Upcoming
from penstock.policy import Policy

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
            outlook = Upcoming(
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


# --- contracts that every policy must pass ------------------------------------------------

PolicyCheck = Callable[[Policy], None]


def policy_checks() -> list[PolicyCheck]:
    """Every function of this module whose name begins with ``check_policy_``."""
    found = vars(sys.modules[__name__])
    return [found[name] for name in sorted(found) if name.startswith("check_policy_")]


def random_demand(seed: int, most: int = 12) -> Demand:
    """Whole tuples of a few queries; strata may be empty, worthless, free or paid for."""
    rng = np.random.default_rng(seed)
    queries, strata = int(rng.integers(1, 6)), int(rng.integers(1, most))
    return Demand.of(
        Queries.of(rng.random(queries) * rng.integers(0, 2)),
        rng.integers(0, queries, strata),
        rng.integers(0, 30, strata),
        rng.random(strata) * rng.integers(0, 2, strata) / 10,
        rng.choice([0.0, 0.5, 1.0, 3.0], strata, p=[0.1, 0.3, 0.4, 0.2]),
        rng.random(strata) < 0.2,
    )


def _cases() -> Iterator[tuple[Demand, float]]:
    for seed in range(200):
        demand = random_demand(seed)
        for share in (0.0, 0.1, 0.5, 0.9):
            yield demand, share * demand.total_cost()


def check_policy_rates_lie_between_0_and_1(policy: Policy) -> None:
    for demand, capacity in _cases():
        rates = policy.rates(demand, capacity)
        assert rates.shape == (len(demand),), f"{rates.shape} rates for {len(demand)} strata"
        assert np.isfinite(rates).all(), f"a rate is not a number: {rates}"
        assert rates.min() >= 0.0, f"rate {rates.min()}"
        assert rates.max() <= 1.0, f"rate {rates.max()}"


def check_policy_respects_the_capacity(policy: Policy) -> None:
    """Law 4."""
    for demand, capacity in _cases():
        spent = demand.spent(policy.rates(demand, capacity))
        assert spent <= capacity * (1 + 1e-9) + 1e-9, f"spends {spent} of {capacity}"


def check_policy_uses_the_capacity(policy: Policy) -> None:
    """What a policy leaves would not have been enough for the dearest tuple that it shed.

    (A form that takes whole tuples stops at one that does not fit.)
    """
    for demand, capacity in _cases():
        rates = policy.rates(demand, capacity)
        left = capacity - demand.spent(rates)
        shed = (demand.tuples * (1 - rates) >= 1.0 - 1e-9) & (demand.cost > 0)
        if shed.any():
            dearest = float(demand.cost[shed].max())
            assert left <= dearest + 1e-9, f"leaves {left} where a tuple costs {dearest}"


def check_policy_stands_open_without_overload(policy: Policy) -> None:
    """Law 6."""
    for demand, _ in _cases():
        rates = policy.rates(demand, demand.total_cost())
        assert (rates == 1.0).all(), f"sheds although there is room: {rates}"


def check_policy_repeats_itself(policy: Policy) -> None:
    """Law 8, the controller's half: the same demand, the same plan."""
    for demand, capacity in _cases():
        first, again = policy.rates(demand, capacity), policy.rates(demand, capacity)
        assert (first == again).all(), "two answers to one question"


def check_policy_leaves_its_demand_alone(policy: Policy) -> None:
    for demand, capacity in _cases():
        before = [demand.tuples.copy(), demand.sic.copy(), demand.queries.sic.copy()]
        policy.rates(demand, capacity)
        after = [demand.tuples, demand.sic, demand.queries.sic]
        assert all((a == b).all() for a, b in zip(before, after, strict=True)), "changed its demand"


def check_policy_takes_an_empty_demand(policy: Policy) -> None:
    nothing = Demand.of(Queries.of([0.5]), np.empty(0, dtype=np.int64), [], [], [])
    assert policy.rates(nothing, 0.0).shape == (0,)
