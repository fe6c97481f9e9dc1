"""For tests of policies and controllers, without Spark and without waiting.

``check_policy`` puts a policy to every check that Penstock's own policies pass, on demands of
``random_demand``. A ``Plant`` closes the loop around a controller in virtual time. ``plan_of``
writes a plan down, a ``ScriptedGate`` follows a script of them, and a ``Draw`` admits by chance
as a gate does, the same way for the same seed.

>>> from penstock.core.controller import Controller
>>> from penstock.core.settings import Settings
>>> from penstock.policy import get
>>> check_policy(get("balance-sic"))
>>> plant = Plant({Stratum("q", "s"): 100_000.0}, Cost(fixed=0.2, arriving=1e-7, admitting=2e-5))
>>> runs = plant.run(Controller(Settings(policy=get("balance-sic"))), batches=30)
>>> all(run.latency <= 2.0 for run in runs[10:])
True
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.controller import Controller
from penstock.core.cost import TASKS_BEGIN_SECONDS
from penstock.core.demand import Demand, Policy, Queries
from penstock.core.state import State
from penstock.core.types import Batch, Count, Plan, Report, Strata, Stratum, Upcoming

__all__ = [
    "Cost",
    "Draw",
    "Plant",
    "PolicyCheck",
    "Rates",
    "Run",
    "ScriptedGate",
    "check_policy",
    "plan_of",
    "policy_checks",
    "random_demand",
]

Rates = Mapping[Stratum, float]
"""Tuples a second, by stratum."""
PolicyCheck = Callable[[Policy], None]
"""Raises an AssertionError where a policy breaks a rule."""
ARRIVAL_STEPS = 64
"""So many times in an interval a plant looks at arrivals that change with time."""
POLICY_CHECK_DEMANDS = 200
"""Random demands on which a check tries a policy."""
POLICY_CHECK_SHARES = (0.0, 0.1, 0.5, 0.9)
"""Capacities that a check gives a policy, as shares of what the whole demand costs."""


# --- plans, gates and chance --------------------------------------------------------------


def plan_of(
    rates: Mapping[Stratum, float], default: float = 1.0, sic: float = 0.0, version: int = 1
) -> Plan:
    """Answers the plan with these rates, whose tuples are all worth ``sic``.

    >>> plan_of({Stratum("q", "s"): 0.25}, default=0.5).rate(Stratum("q", "another"))
    0.5
    """
    given = np.array(list(rates.values()), dtype=np.float64)
    return Plan(version, Strata(rates), given, np.full(given.size, sic), default, sic)


class Draw:
    """Admits each tuple with the chance that a plan gives it; the same way for the same seed.

    >>> arrived = {Stratum("q", "s"): 1000}
    >>> plan = plan_of({Stratum("q", "s"): 0.25})
    >>> Draw(seed=1).admitted(plan, arrived) == Draw(seed=1).admitted(plan, arrived)
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def admitted(self, plan: Plan, arrived: Mapping[Stratum, int]) -> dict[Stratum, Count]:
        """Answers what a gate counts when so many tuples arrive under a plan."""
        return {s: Count(n, int(self.rng.binomial(n, plan.rate(s)))) for s, n in arrived.items()}


@dataclass
class ScriptedGate:
    """A gate that follows a script: batch number n, from 0, is decided by ``plans[n]``.

    After the last plan of the script, that one stays in force.

    >>> gate = ScriptedGate([plan_of({}, default=1.0), plan_of({}, default=0.0)])
    >>> tuple(gate.batch({Stratum("q", "s"): 10}, seconds=0.5).admitted for _ in range(3))
    (10, 0, 0)
    """

    plans: Sequence[Plan]
    seed: int = 0
    stream: str = "scripted"
    interval: float = 1.0
    """Seconds from the start of a batch to the next one's."""
    number: int = 0
    """The number of the next batch."""
    _draw: Draw = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._draw = Draw(self.seed)

    def batch(self, arrived: Mapping[Stratum, int], seconds: float) -> Batch:
        """Runs a batch in which these tuples arrive, and answers what the gate reports of it."""
        plan = self.plans[min(self.number, len(self.plans) - 1)]
        counts = self._draw.admitted(plan, arrived)
        start = self.number * self.interval
        self.number += 1
        return Batch(self.stream, self.number - 1, start, seconds, counts)


# --- a plant to control -------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What a batch really costs, in seconds, whatever the controller has learnt of it."""

    fixed: float
    arriving: float
    admitting: float

    def seconds(self, arrived: float, admitted: float) -> float:
        """Answers how long a batch takes in which so many arrive and are admitted."""
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
        """When the batch was done."""
        return self.started + self.seconds

    @property
    def latency(self) -> float:
        """The seconds from the arrival of the oldest tuple in the batch to its result."""
        return self.waited + self.seconds

    @property
    def arrived(self) -> int:
        return sum(count.arrived for count in self.counts.values())

    @property
    def admitted(self) -> int:
        return sum(count.admitted for count in self.counts.values())


@dataclass
class Plant:
    """A machine that runs micro-batches in virtual time.

    ``arrivals`` and ``cost`` are constants or functions of time. A batch starts when the
    interval is over and the last batch is done; all that arrived since the last start is in it.
    Batch k's report reaches the controller ``lag`` batches later (1: before the next batch).
    ``noise`` is the standard deviation of the log of a batch's time, and ``memory`` how much of a
    batch's noise is still there in the next; ``slow_start`` multiplies the times of the first
    batches. With ``peek`` the source tells how much waits, and with ``spans`` the gate how long
    the tuples were passing. With a ``limit`` a batch reads the oldest of what waits, up to that.
    """

    arrivals: Rates | Callable[[float], Rates]
    cost: Cost | Callable[[float], Cost]
    lag: int = 1
    noise: float = 0.0
    slow_start: tuple[float, ...] = ()
    peek: bool = True
    seed: int = 0
    outliers: Mapping[int, float] = field(default_factory=dict)
    """By number: batches that take so many times longer."""
    memory: float = 0.0
    spans: bool = True
    chance: bool = False
    """Whether tuples arrive by chance, or evenly."""
    restarted: bool = False
    """Whether the source knows how much waits before its first batch, too."""
    pause: Callable[[float], float] = lambda _: 0.0
    """Seconds more that a batch takes that starts at a time, whatever is in it."""
    limit: int | None = None
    """The tuples that a batch may read at most; what is left waits for the next."""
    _noise: float = field(init=False, default=0.0, repr=False)

    def run(self, controller: Controller, batches: int) -> list[Run]:
        """Runs so many batches under a controller, and answers how each of them went."""
        draw = Draw(self.seed)
        interval = controller.settings.interval
        state, runs, reports = State(), list[Run](), list[Batch]()
        start, queue = interval, _Queue(self.limit)
        for number in range(batches):
            previous = runs[-1].started if runs else 0.0
            queue.put(previous, self._arrived(previous, start, draw.rng))
            since, arrived = queue.take()
            left = len(queue)
            heard = [batch for batch in reports if batch.number <= number - self.lag]
            reports = reports[len(heard) :]
            knows = self.peek and (number > 0 or self.restarted)
            waiting = sum(arrived.values()) if knows else None
            backlog, limited = (left, left > 0) if knows else (None, False)
            starting = Upcoming("plant", start - previous, waiting, None, backlog, limited)
            state, plan = controller.step(state, Report(start, tuple(heard), starting))
            counts = draw.admitted(plan, arrived)
            amounts = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0]
            cost, trouble = self._cost(start), self._trouble(number, draw.rng)
            seconds = cost.seconds(*amounts) * trouble + self.pause(start)
            passing = (cost.seconds(*amounts) - cost.fixed) * trouble
            runs.append(Run(start, seconds, start - since, plan, counts))
            span = passing + TASKS_BEGIN_SECONDS if self.spans else None
            batch = Batch("plant", number, start, seconds, counts, span=span)
            reports.append(replace(batch, backlog=backlog, read_limited=limited))
            start = max(start + interval, start + seconds)
        return runs

    def _arrived(self, since: float, until: float, rng: np.random.Generator) -> dict[Stratum, int]:
        steps = np.linspace(since, until, ARRIVAL_STEPS + 1)
        middle = (steps[:-1] + steps[1:]) / 2
        totals: dict[Stratum, float] = {}
        for moment in middle if callable(self.arrivals) else [until]:
            rates = self.arrivals(float(moment)) if callable(self.arrivals) else self.arrivals
            share = (until - since) / (ARRIVAL_STEPS if callable(self.arrivals) else 1)
            for stratum, rate in rates.items():
                totals[stratum] = totals.get(stratum, 0.0) + rate * share
        if self.chance:
            return {stratum: int(rng.poisson(total)) for stratum, total in totals.items()}
        return {stratum: round(total) for stratum, total in totals.items()}

    def _cost(self, now: float) -> Cost:
        return self.cost(now) if callable(self.cost) else self.cost

    def _trouble(self, number: int, rng: np.random.Generator) -> float:
        slow = self.slow_start[number] if number < len(self.slow_start) else 1.0
        kept = self.memory * self._noise if number else 0.0
        self._noise = kept + float(np.sqrt(1 - self.memory**2)) * self.noise * rng.normal()
        return slow * self.outliers.get(number, 1.0) * float(np.exp(self._noise))


class _Queue:
    """What waits at the source of a plant, the oldest first."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._waiting: deque[tuple[float, dict[Stratum, int]]] = deque()

    def __len__(self) -> int:
        return sum(sum(counts.values()) for _, counts in self._waiting)

    def put(self, since: float, counts: dict[Stratum, int]) -> None:
        """Adds what has arrived since then."""
        self._waiting.append((since, counts))

    def take(self) -> tuple[float, dict[Stratum, int]]:
        """Answers what a batch reads, and since when the oldest of it may have waited."""
        oldest, taken = self._waiting[0][0], dict[Stratum, int]()
        room = len(self) if self._limit is None else self._limit
        while self._waiting:
            since, counts = self._waiting.popleft()
            total = sum(counts.values())
            share = min(room / total, 1.0) if total else 1.0
            read = {stratum: int(count * share) for stratum, count in counts.items()}
            for stratum, count in read.items():
                taken[stratum] = taken.get(stratum, 0) + count
            room -= total
            if share < 1.0:
                rest = {stratum: count - read[stratum] for stratum, count in counts.items()}
                self._waiting.appendleft((since, rest))
                break
        return oldest, taken


# --- contracts that every policy must pass ------------------------------------------------


def check_policy(policy: Policy) -> None:
    """Puts a policy to every check."""
    for check in policy_checks():
        check(policy)


def policy_checks() -> list[PolicyCheck]:
    """Answers every function of this module whose name begins with ``check_policy_``."""
    found = vars(sys.modules[__name__])
    return [found[name] for name in sorted(found) if name.startswith("check_policy_")]


def random_demand(seed: int, most: int = 12) -> Demand:
    """Answers a demand of whole tuples of a few queries, in fewer than ``most`` strata.

    Its strata may be empty, worthless, free of cost or paid for.

    >>> len(random_demand(seed=1)) < 12
    True
    """
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
    for seed in range(POLICY_CHECK_DEMANDS):
        demand = random_demand(seed)
        for share in POLICY_CHECK_SHARES:
            yield demand, share * demand.total_cost()


def check_policy_rates_lie_between_0_and_1(policy: Policy) -> None:
    """A policy answers one rate for each stratum, between 0 and 1."""
    for demand, capacity in _cases():
        rates = policy.rates(demand, capacity)
        assert rates.shape == (len(demand),), f"{rates.shape} rates for {len(demand)} strata"
        assert np.isfinite(rates).all(), f"a rate is not a number: {rates}"
        assert rates.min() >= 0.0, f"rate {rates.min()}"
        assert rates.max() <= 1.0, f"rate {rates.max()}"


def check_policy_respects_the_capacity(policy: Policy) -> None:
    """The expected cost of the rates does not exceed the capacity (law 4)."""
    for demand, capacity in _cases():
        spent = demand.spent(policy.rates(demand, capacity))
        assert spent <= capacity * (1 + 1e-9) + 1e-9, f"spends {spent} of {capacity}"


def check_policy_uses_the_capacity(policy: Policy) -> None:
    """What a policy leaves would not have been enough for the dearest tuple that it shed.

    A form that takes whole tuples stops at one that does not fit.
    """
    for demand, capacity in _cases():
        rates = policy.rates(demand, capacity)
        left = capacity - demand.spent(rates)
        shed = (demand.tuples * (1 - rates) >= 1.0 - 1e-9) & (demand.cost > 0)
        if shed.any():
            dearest = float(demand.cost[shed].max())
            assert left <= dearest + 1e-9, f"leaves {left} where a tuple costs {dearest}"


def check_policy_stands_open_without_overload(policy: Policy) -> None:
    """Where the capacity suffices, every rate is 1 (law 6)."""
    for demand, _ in _cases():
        rates = policy.rates(demand, demand.total_cost())
        assert (rates == 1.0).all(), f"sheds although there is room: {rates}"


def check_policy_repeats_itself(policy: Policy) -> None:
    """The same demand gets the same rates (the controller's half of law 8)."""
    for demand, capacity in _cases():
        first, again = policy.rates(demand, capacity), policy.rates(demand, capacity)
        assert (first == again).all(), "two answers to one question"


def check_policy_leaves_its_demand_alone(policy: Policy) -> None:
    """A policy does not write into the arrays of its demand."""
    for demand, capacity in _cases():
        before = [demand.tuples.copy(), demand.sic.copy(), demand.queries.sic.copy()]
        policy.rates(demand, capacity)
        after = [demand.tuples, demand.sic, demand.queries.sic]
        assert all((a == b).all() for a, b in zip(before, after, strict=True)), "changed its demand"


def check_policy_takes_an_empty_demand(policy: Policy) -> None:
    """Where nothing waits, there are no rates."""
    nothing = Demand.of(Queries.of([0.5]), np.empty(0, dtype=np.int64), [], [], [])
    assert policy.rates(nothing, 0.0).shape == (0,)
