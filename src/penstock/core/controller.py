"""The heart of Penstock: ``step(state, report) -> (state, plan)``.

Once for each micro-batch: **observe** what finished (the cost models and the account learn),
**estimate** what waits and what it would cost, **allocate** the capacity by the policy, and
answer a plan. No Spark, no clock, no I/O: the simulator and the Spark runtime run this code.

*How much* is answered by ``capacity``: every stream has a budget a batch, and all of them share
the site's processors.

*Whose.* The policy divides it between queries; ``projection`` says where each of them stands.

*Which.* Strata in descending SIC per unit of cost. A small share of the capacity samples every
stratum that waits, whatever it is worth, so that none is forgotten (law 10).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.account import Account
from penstock.core.capacity import Capacity
from penstock.core.cost import CostModel, ThreeTermCost
from penstock.core.demand import Demand, checked_rates, is_blind, levels_sic
from penstock.core.governor import FIRST_TUPLE_SECONDS
from penstock.core.news import remember
from penstock.core.projection import Project, Projection, project
from penstock.core.rounding import Past, rounded
from penstock.core.settings import Settings
from penstock.core.standing import Standing
from penstock.core.state import State, StreamState, learn, passing, with_shares
from penstock.core.types import Bools, Floats, Plan, Report, Tally, Upcoming
from penstock.core.window_shedding import Asked, NoWindows, WindowsInForce
from penstock.errors import PenstockError

MOST_CAPACITY_ATTEMPTS = 12
"""Attempts at a capacity under which no stream takes too long; one or two are the rule."""
MOST_EXPLORE_RATE = 0.05
"""No stratum is sampled at a higher rate only to learn about it."""
LEAST_EXPLORE_SHARE = 0.05
"""Where even reading is too much, this share of the exploration is still done."""
UNCOUNTED_TUPLES = 100_000
"""A source of which nothing was counted yet is taken to send so many an interval, if its offsets do
not tell. Stamped with 1 each, or with what partial results beside them are worth, the tuples of its
first batch would outweigh all others of an STW by thousands of times."""


@dataclass(frozen=True)
class Controller:
    """Decides; it holds no state of its own, so that a decision can be repeated.

    It is made of parts, each of which can be another one: ``cost`` is the model with which a
    new stream begins, ``capacity`` makes the estimates of how much a batch may admit,
    ``project`` says where queries stand, and ``windows`` are those, still empty, of queries that
    shed inside windows (``penstock.windows`` has them).
    """

    settings: Settings
    cost: CostModel = field(default_factory=ThreeTermCost)
    capacity: Callable[[Settings], Capacity] = Capacity
    project: Project = project
    windows: WindowsInForce = field(default_factory=NoWindows)

    def __post_init__(self) -> None:
        if self.settings.concepts and isinstance(self.windows, NoWindows):
            queries = ", ".join(map(repr, self.settings.concepts))
            raise PenstockError(
                "windows must be given where queries have a concept, such as ConceptWindows() of "
                f"penstock.windows.in_force; got none for {queries}"
            )

    def with_settings(self, settings: Settings) -> "Controller":
        """Answers a controller of the same parts for other settings."""
        return replace(self, settings=settings)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        """Answers the plan for the batch that is about to start, and what to remember."""
        state = self._observe(state, report)
        account = self._account(state)
        standing = account.by_query(
            state.shares, self.settings.sources, passing(state, self.settings)
        )
        state = remember(state, standing, report, self.settings)
        plan = self._plan(state, account, standing, report)
        return replace(state, version=plan.version), plan

    # --- observe -----------------------------------------------------------------------------

    def _observe(self, state: State, report: Report) -> State:
        """Answers the state with all that a report says of batches, streams and sources."""
        account, streams = self._account(state).as_of(report.now), dict(state.streams)
        windows = self._windows(state)
        for batch in report.finished:
            stream = streams.get(batch.stream) or self._new_stream()
            if batch.number > stream.batch:  # else it was told twice
                windows, batch = windows.record(batch, self.settings)
                reached = Tally.of(batch.counts).thinned(batch.in_time)
                account = account.record(report.now, reached)
                streams[batch.stream] = learn(stream, batch, self.settings)
        streams = {name: each for name, each in streams.items() if name not in report.gone}
        account = account.slide(report.now)
        state = replace(state, streams=streams, account=account, windows=windows)
        return with_shares(state, report)

    def _account(self, state: State) -> Account:
        """Answers the account; a new one where there is none, or one of other settings."""
        interval, stw = self.settings.interval, self.settings.stw_seconds
        account = state.account
        if account is None or not account.is_of(interval, stw):
            return Account(interval, stw)
        return account

    def _windows(self, state: State) -> WindowsInForce:
        """Answers the windows; empty ones where there are none, or ones of another kind."""
        known = state.windows
        return known if isinstance(known, type(self.windows)) else self.windows

    def _new_stream(self) -> StreamState:
        return StreamState(clock=self.cost, work=self.cost)

    # --- estimate ----------------------------------------------------------------------------

    def _plan(self, state: State, account: Account, standing: Standing, report: Report) -> Plan:
        if not account.strata:
            return self._blind_plan(state, report.starting)
        windows = self._windows(state).at(report.now, self.settings)
        if windows.queries:
            account = account.including(windows.groups)
            standing = account.by_query(
                state.shares, self.settings.sources, passing(state, self.settings)
            )
        forecast = self._capacity.forecast(state, account, report.starting)
        asked = windows.ask(account.strata, standing, forecast)
        rates = self._allocate(state, account, standing, asked, report) * asked.rates
        known = float((rates * forecast.tuples).sum() / max(forecast.tuples.sum(), 1e-12))
        return Plan(
            version=state.version + 1,
            strata=account.strata,
            rates=rates,
            sic=standing.tuple_sic,
            default_rate=1.0 if (rates >= 1.0).all() else min(known, 1.0),
            default_sic=self._worth_of_uncounted(self._waiting(state, report.starting)),
        ).short(windows.queries)

    def _blind_plan(self, state: State, starting: Upcoming | None) -> Plan:
        """Answers one rate for whatever comes, while no stratum is known.

        The first batch times its tuples. As a rule it is small; where a query is started again
        and much waits, only a part of it is tried while nobody knows what a tuple costs.
        """
        if starting is None:
            return Plan(state.version + 1)
        stream = state.streams.get(starting.stream) or self._new_stream()
        waiting = self._waiting(state, starting)
        worth = self._worth_of_uncounted(waiting)
        cost = stream.clock.admitting * stream.mean_weight * waiting
        spare = self._capacity.spare(starting.stream, stream, waiting, starting)
        rate = 1.0 if cost <= spare else spare / cost
        if not stream.clock.known and starting.arrived:
            budget = self.settings.budget_of(starting.stream)
            rate = min(rate, budget / FIRST_TUPLE_SECONDS / starting.arrived)
        return Plan(state.version + 1, default_rate=rate, default_sic=worth)

    def _waiting(self, state: State, starting: Upcoming | None) -> float:
        """Answers how many tuples wait for a stream; 0 where nobody knows."""
        if starting is None:
            return 0.0
        stream = state.streams.get(starting.stream) or self._new_stream()
        return self._capacity.expected(starting.stream, stream, starting)

    def _worth_of_uncounted(self, waiting: float) -> float:
        """Answers the SIC of a tuple of a source that is not in the account yet.

        What waits is then worth an interval of its source at most (THEMIS, equation 1).
        """
        intervals = self.settings.stw_seconds / self.settings.interval
        return 1.0 / (intervals * (waiting if waiting >= 1.0 else UNCOUNTED_TUPLES))

    @property
    def _capacity(self) -> Capacity:
        return self.capacity(self.settings)

    # --- allocate: under each stream's budget, and under the site's processors ------------------

    def _allocate(
        self, state: State, account: Account, standing: Standing, asked: Asked, report: Report
    ) -> Floats:
        """Answers the most that the site can do such that every stream stays within its budget.

        The policy divides the site between all queries, whichever stream they belong to. Where a
        stream would then take too long, all of them get less, not only this one: streams of a
        site slow each other down, and fairness is between queries, not between streams.
        """
        names, forecast = list(state.streams), asked.forecast
        rates = np.ones(forecast.tuples.size)
        known = [n for n, name in enumerate(names) if state.streams[name].clock.known]
        costed = np.zeros(len(names) + 1, dtype=np.bool_)  # the last for strata without a stream
        costed[known] = True
        mine = costed[forecast.stream]
        if not mine.any():
            return rates
        capacity = self._capacity
        work = capacity.costs(state, names, forecast, work=True)
        clock = capacity.costs(state, names, forecast, work=False)
        spare = {
            n: capacity.spare(
                names[n], state.streams[names[n]], forecast.expected[names[n]], report.starting
            )
            for n in known
        }
        site = min(capacity.of_site(state, forecast), float((forecast.tuples * work)[mine].sum()))
        projected = self.project(state, account, standing, forecast, report.now, self.settings)
        past = Past(account.arrived()[mine], account.admitted()[mine], ~forecast.seen[mine])
        for _ in range(MOST_CAPACITY_ATTEMPTS):
            rates[mine] = self._divide(standing, projected, asked, mine, work, site, past)
            tightest = 1.0
            for number in known:
                own = forecast.stream == number
                needs = float((forecast.tuples * clock * rates)[own].sum())
                if needs > spare[number]:
                    tightest = min(tightest, spare[number] / needs)
            if tightest >= 1.0 - 1e-6:
                break
            site *= tightest
        return rates

    def _divide(
        self,
        standing: Standing,
        projected: Projection,
        asked: Asked,
        mine: Bools,
        cost: Floats,
        capacity: float,
        past: Past,
    ) -> Floats:
        """Answers the policy's rates for these strata, with a little for everybody."""
        tuples, cost = asked.forecast.tuples[mine], cost[mine]
        total = float((tuples * cost).sum())
        if total <= max(capacity, 0.0):
            return np.ones(tuples.size)
        capacity = max(capacity, self.settings.explore * total * LEAST_EXPLORE_SHARE)
        least = min(MOST_EXPLORE_RATE, self.settings.explore * capacity / total)
        demand = Demand(
            queries=projected.queries,
            query=standing.query[mine],
            tuples=tuples * (1 - least),
            sic=projected.sic[mine],
            cost=cost,
            paid=projected.partial[mine],
            filling=asked.filling and asked.filling.only(mine),
        )
        left = capacity - least * total
        rates = checked_rates(self.settings.policy, demand, left)
        if not is_blind(self.settings.policy):
            rates = rounded(demand, rates, left, past if levels_sic(self.settings.policy) else None)
        return least + (1 - least) * rates
