"""The heart of Penstock: ``step(state, report) -> (state, plan)``.

Once for each micro-batch: **observe** what finished (the cost models and the account learn),
**estimate** what waits and what it would cost, **allocate** the capacity by the policy, and
answer a plan. No Spark, no clock, no I/O: the simulator and the Spark runtime run this code.

*How much* is answered by ``capacity``: every job has a budget a batch, and all of them share the
site's processors.

*Whose.* The policy divides it between queries; ``projection`` says where each of them stands.

*Which.* Strata in descending SIC per unit of cost. A small share of the capacity samples every
stratum that waits, whatever it is worth, so that none is forgotten (law 10).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.account import Account, Standing
from penstock.core.capacity import Capacity
from penstock.core.rounding import take_whole
from penstock.core.settings import Settings
from penstock.core.standing import Project, Projection, project
from penstock.core.state import Job, State, fill, learn, lumped, remember, with_shares
from penstock.core.types import Bools, Demand, Floats, Plan, Report, Upcoming
from penstock.errors import PenstockError
from penstock.policy.base import is_blind
from penstock.windows.demand import Asked, ask
from penstock.windows.window import Window


@dataclass(frozen=True)
class Controller:
    """Decides; it holds no state of its own, so that a decision can be repeated."""

    settings: Settings = field(default_factory=Settings)
    project: Project = project

    @property
    def _capacity(self) -> Capacity:
        return Capacity(self.settings)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        account = state.account
        if account is None or not account.is_of(self.settings.interval, self.settings.window):
            account = Account(self.settings.interval, self.settings.window)
        jobs, windows = dict(state.jobs), state.windows
        for batch in report.finished:
            job = jobs.get(batch.job) or Job()
            if batch.number > job.batch:  # else it was told twice
                windows = fill(windows, self.settings.concepts, batch)
                batch = lumped(batch, self.settings.concepts)
                account = account.record(report.now, batch.counts)
                jobs[batch.job] = learn(job, batch)
        jobs = {name: job for name, job in jobs.items() if name not in report.gone}
        account = account.slide(report.now)
        state = replace(state, jobs=jobs, account=account, windows=windows)
        state = with_shares(state, report, self.settings)
        standing = account.by_query(state.shares)
        state = remember(state, standing, report, self.settings)
        plan = self._plan(state, account, standing, report)
        return replace(state, version=plan.version, overloaded=not plan.open), plan

    def _plan(self, state: State, account: Account, standing: Standing, report: Report) -> Plan:
        if not account.strata:
            return self._blind_plan(state, report.starting)
        windows = self._windows(state, report.now)
        if windows:
            account = account.including(group for w in windows.values() for group in w.groups)
            standing = account.by_query(state.shares)
        forecast = self._capacity.forecast(state, account, report.starting)
        asked = ask(windows, account.strata, standing, forecast)
        rates = self._allocate(state, account, standing, asked, report)
        self._check(rates)
        rates = rates * asked.rates
        known = float((rates * forecast.tuples).sum() / max(forecast.tuples.sum(), 1e-12))
        return Plan(
            version=state.version + 1,
            strata=account.strata,
            rates=rates,
            sic=standing.tuple_sic,
            default_rate=1.0 if (rates >= 1.0).all() else min(known, 1.0),
            default_sic=float(standing.tuple_sic.mean()),
        ).short(windows)

    def _windows(self, state: State, now: float) -> dict[str, Window]:
        """As they will be when the next batch comes; by event time that is a guess."""
        return {
            query: window.at(window.ahead() if window.concept.time else now)
            for query, window in state.windows.items()
            if query in self.settings.concepts
        }

    def _blind_plan(self, state: State, starting: Upcoming | None) -> Plan:
        """When no stratum is known: one rate for whatever comes."""
        if starting is None:
            return Plan(state.version + 1)
        job = state.jobs.get(starting.job, Job())
        waiting = self._capacity.expected(starting.job, job, starting)
        worth = 1.0 / max(waiting * self.settings.window / self.settings.interval, 1.0)
        cost = job.clock.admitting * job.heaviness * waiting
        spare = self._capacity.spare(starting.job, job, waiting, starting)
        rate = 1.0 if cost <= spare else spare / cost
        return Plan(state.version + 1, default_rate=rate, default_sic=worth)

    # --- allocate: under each job's budget, and under the site's processors --------------

    def _allocate(
        self, state: State, account: Account, standing: Standing, asked: Asked, report: Report
    ) -> Floats:
        """The most that the site can do such that every job stays within its budget.

        The policy divides the site between all queries, whichever job they belong to. Where a
        job would then take too long, all of them get less, not only this one: jobs of a site
        slow each other down, and fairness is between queries, not between jobs.
        """
        names, forecast = list(state.jobs), asked.forecast
        rates = np.ones(forecast.tuples.size)
        known = [n for n, name in enumerate(names) if state.jobs[name].clock.known]
        costed = np.zeros(len(names) + 1, dtype=np.bool_)  # the last for strata without a job
        costed[known] = True
        mine = costed[forecast.job]
        if not mine.any():
            return rates
        work = self._capacity.costs(state, names, forecast, work=True)
        clock = self._capacity.costs(state, names, forecast, work=False)
        spare = {
            n: self._capacity.spare(
                names[n], state.jobs[names[n]], forecast.expected[names[n]], report.starting
            )
            for n in known
        }
        site = min(
            self._capacity.of_site(state, forecast), float((forecast.tuples * work)[mine].sum())
        )
        projected = self.project(state, account, standing, forecast, report.now, self.settings)
        for _ in range(ROUNDS):
            rates[mine] = self._divide(standing, projected, asked, mine, work, site)
            tightest = 1.0
            for number in known:
                own = forecast.job == number
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
    ) -> Floats:
        """The policy's rates for these strata, with a little for everybody."""
        tuples, cost = asked.forecast.tuples[mine], cost[mine]
        total = float((tuples * cost).sum())
        if total <= max(capacity, 0.0):
            return np.ones(tuples.size)
        capacity = max(capacity, self.settings.explore * total * EXPLORE_AT_LEAST)
        least = min(EXPLORE_AT_MOST, self.settings.explore * capacity / total)
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
        rates = np.asarray(self.settings.policy.rates(demand, left), dtype=np.float64)
        if not is_blind(self.settings.policy):
            rates = take_whole(demand, rates, left)
        return least + (1 - least) * rates

    def _check(self, rates: Floats) -> None:
        if rates.size and not (rates.min() >= 0.0 and rates.max() <= 1.0 + 1e-9):
            name = getattr(self.settings.policy, "name", type(self.settings.policy).__name__)
            raise PenstockError(
                f"policy {name!r} gave the rate {_worst(rates)}: a rate lies between 0 and 1"
            )


ROUNDS = 12
"""Attempts at a capacity under which no job takes too long; one or two are the rule."""
EXPLORE_AT_MOST = 0.05
"""No stratum is sampled at more than this only to learn about it."""
EXPLORE_AT_LEAST = 0.05
"""Where even reading is too much, so much of the exploration is still done."""


def _worst(rates: Floats) -> float:
    return float(rates[np.argmax(np.abs(np.nan_to_num(rates, nan=np.inf) - 0.5))])
