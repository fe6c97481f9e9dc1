"""The heart of Penstock: ``step(state, report) -> (state, plan)``.

Once for each micro-batch: **observe** what finished (the cost models and the account learn),
**estimate** what waits and what it would cost, **allocate** the capacity by the policy, and
answer a plan. No Spark, no clock, no I/O: the simulator and the Spark runtime run this code.

*How much.* A batch of a job may take its *budget*: as long as its interval and the latency asked
for allow, less some headroom. Its cost model says how many tuples that is. All jobs together may
use the site's processors, less the same headroom.

*Whose.* The policy divides it. A query's standing combines where it is over the past STW with
where this plan would take it, in equal parts. Correcting the whole past in one interval instead,
as THEMIS' projection taken literally does, repeats every disturbance once an STW for ever; by
half, it dies out, and the long run is the same.

*Which.* Strata in descending SIC per unit of cost. A small share of the capacity samples every
stratum that waits, whatever it is worth, so that none is forgotten (law 10).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.account import Account, Standing
from penstock.cost import ThreeTermCost
from penstock.policy import Policy
from penstock.policy.balance_sic import BalanceSic
from penstock.types import (
    Batch,
    Bools,
    Demand,
    Floats,
    Ints,
    Outlook,
    PenstockError,
    Plan,
    Queries,
    Report,
    Stratum,
    Told,
)


@dataclass(frozen=True)
class Terms:
    """What a query was promised; see ``types.Queries``."""

    weight: float = 1.0
    floor: float = 0.0
    ceiling: float = float("inf")


@dataclass(frozen=True)
class Settings:
    interval: float = 1.0
    """Seconds between the starts of two micro-batches (δ)."""
    latency: float | None = None
    """Seconds from a tuple's arrival to its result; two intervals unless told."""
    stw: float | None = None
    """Seconds over which SIC is accounted; ten intervals or ten seconds, whichever is more."""
    policy: Policy = field(default_factory=BalanceSic)
    headroom: float = 0.9
    """The share of the budget that is planned; the rest absorbs noise."""
    explore: float = 0.02
    """The share of the capacity that samples every stratum, whatever it is worth."""
    cores: float = 1.0
    """Processor seconds that the site has in a second."""
    terms: Mapping[str, Terms] = field(default_factory=dict)
    intervals: Mapping[str, float] = field(default_factory=dict)
    """Of jobs whose trigger differs from the site's."""

    def interval_of(self, job: str) -> float:
        return self.intervals.get(job, self.interval)

    def budget_of(self, job: str) -> float:
        """How long a batch may take such that waiting for it and it stay within the latency.

        A tuple waits for at most the larger of the interval and the batch before its own.
        """
        interval = self.interval_of(job)
        latency = 2 * interval if self.latency is None else self.latency
        return max(latency - interval, interval / 4) if latency < 2 * interval else latency / 2

    @property
    def window(self) -> float:
        return max(10.0, 10 * self.interval) if self.stw is None else self.stw


@dataclass(frozen=True)
class Job:
    """What is known of one streaming query on this site."""

    clock: ThreeTermCost = field(default_factory=ThreeTermCost)
    """Seconds that a batch takes."""
    work: ThreeTermCost = field(default_factory=ThreeTermCost)
    """Processor seconds that it uses."""
    rate: float = 0.0
    """Tuples a second, of late."""
    last_start: float | None = None
    batch: int = -1
    mix: Mapping[Stratum, float] = field(default_factory=dict)
    """What a batch consists of, of late."""


@dataclass(frozen=True)
class State:
    version: int = 0
    jobs: Mapping[str, Job] = field(default_factory=dict)
    account: Account | None = None
    told: Mapping[str, tuple[Told, float]] = field(default_factory=dict)
    """What a coordinator said of a query, and our own share of its SIC at that time."""
    overloaded: bool = False


@dataclass(frozen=True)
class Controller:
    """Decides; it holds no state of its own, so that a decision can be repeated."""

    settings: Settings = field(default_factory=Settings)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        account = state.account or Account(self.settings.interval, self.settings.window)
        jobs = dict(state.jobs)
        for batch in report.finished:
            job = jobs.get(batch.job, Job())
            if batch.number > job.batch:  # else it was told twice
                account = account.record(report.now, batch.counts)
                jobs[batch.job] = _learn(job, batch)
        jobs = {name: job for name, job in jobs.items() if name not in report.gone}
        account = account.slide(report.now)
        told = {**state.told, **_with_our_share(account, report)}
        state = replace(state, jobs=jobs, account=account, told=told)
        plan = self._plan(state, report)
        return replace(state, version=plan.version, overloaded=not plan.open), plan

    def _plan(self, state: State, report: Report) -> Plan:
        account = state.account
        version = state.version + 1
        if account is None or not account.strata:
            return self._blind_plan(state, report.starting)
        standing = account.by_query()
        forecast = self._forecast(state, account, report.starting)
        rates = self._allocate(state, standing, forecast, report)
        self._check(rates)
        known = float((rates * forecast.tuples).sum() / max(forecast.tuples.sum(), 1e-12))
        return Plan(
            version=version,
            strata=account.strata,
            rates=rates,
            sic=standing.tuple_sic,
            default_rate=1.0 if (rates >= 1.0).all() else min(known, 1.0),
            default_sic=float(standing.tuple_sic.mean()),
        )

    def _blind_plan(self, state: State, starting: Outlook | None) -> Plan:
        """When no stratum is known: one rate for whatever comes."""
        if starting is None:
            return Plan(state.version + 1)
        job = state.jobs.get(starting.job, Job())
        waiting = self._expected(starting.job, job, starting)
        worth = 1.0 / max(waiting * self.settings.window / self.settings.interval, 1.0)
        cost, budget = job.clock.admitting * waiting, self.settings.budget_of(starting.job)
        spare = self._spare(starting.job, job, waiting, starting)
        rate = 1.0 if cost <= spare else max(spare, budget * SOME) / cost
        return Plan(state.version + 1, default_rate=rate, default_sic=worth)

    # --- estimate: what waits, and what may be spent on it -------------------------------

    def _forecast(self, state: State, account: Account, starting: Outlook | None) -> "Forecast":
        """What each job's next batch brings, in the strata that it had of late."""
        index = {stratum: i for i, stratum in enumerate(account.strata)}
        job_of = np.full(len(index), -1, dtype=np.int64)
        tuples = np.zeros(len(index))
        expected: dict[str, float] = {}
        for number, (name, job) in enumerate(state.jobs.items()):
            known = {index[s]: part for s, part in job.mix.items() if s in index}
            expected[name] = self._expected(name, job, starting)
            mine, mix = list(known), np.array(list(known.values()))
            job_of[mine] = number
            tuples[mine] = mix * (expected[name] / max(mix.sum(), 1e-12))
        return Forecast(job_of, tuples, expected)

    def _expected(self, name: str, job: Job, starting: Outlook | None) -> float:
        if starting is None or starting.job != name:
            return job.rate * self.settings.interval_of(name)
        if starting.arrived is not None:
            return float(starting.arrived)
        return job.rate * max(starting.waited, self.settings.interval_of(name))

    def _spare(self, name: str, job: Job, expected: float, starting: Outlook | None) -> float:
        """Seconds that the next batch of a job has for tuples that are admitted.

        Where some must be shed anyway, less for tuples that have waited longer than they should,
        so that the lateness is made up, and no more than somewhat beyond what was tried of late:
        what a model says of batches much larger than it has seen is a guess. Where reading alone
        takes too long, still some: to admit nothing would gain little and tell nothing. A job
        that is warming up is given more: a first batch that is slow says little.
        """
        budget = self.settings.budget_of(name)
        reading = job.clock.seconds(expected, 0.0)
        if job.clock.cold:
            return max(COLD_GRACE * budget - reading, budget * SOME)
        spare = budget * self.settings.headroom - reading
        if starting is None or starting.job != name or job.clock.admitting * expected <= spare:
            return spare
        late = starting.waited - max(self.settings.interval_of(name), budget)
        spare -= min(max(late, 0.0), budget / 2)
        spare = min(spare, max(REACH * job.clock.admitting * job.clock.largest, budget / 4))
        return max(spare, budget * SOME)

    # --- allocate: under each job's budget, and under the site's processors --------------

    def _allocate(
        self, state: State, standing: Standing, forecast: "Forecast", report: Report
    ) -> Floats:
        """The most that the site can do such that every job stays within its budget.

        The policy divides the site between all queries, whichever job they belong to. Where a
        job would then take too long, all of them get less, not only this one: jobs of a site
        slow each other down, and fairness is between queries, not between jobs.
        """
        names = list(state.jobs)
        rates = np.ones(forecast.tuples.size)
        known = [n for n, name in enumerate(names) if state.jobs[name].clock.known]
        mine = np.isin(forecast.job, known)
        if not mine.any():
            return rates
        work = self._costs(state, names, forecast.job, work=True)
        clock = self._costs(state, names, forecast.job, work=False)
        spare = {
            n: self._spare(
                names[n], state.jobs[names[n]], forecast.expected[names[n]], report.starting
            )
            for n in known
        }
        site = min(
            self._site_capacity(state, forecast), float((forecast.tuples * work)[mine].sum())
        )
        for _ in range(ROUNDS):
            rates[mine] = self._divide(standing, forecast, report, state, mine, work, site)
            tightest = 1.0
            for number in known:
                own = forecast.job == number
                needs = float((forecast.tuples * clock * rates)[own].sum())
                if needs > spare[number]:
                    tightest = min(tightest, max(spare[number], 0.0) / needs)
            if tightest >= 1.0 - 1e-6:
                break
            site *= tightest
        return rates

    def _site_capacity(self, state: State, forecast: "Forecast") -> float:
        """Processor seconds an interval for admitted tuples, all jobs together."""
        settings = self.settings
        if len(state.jobs) < 2 or not all(job.work.known for job in state.jobs.values()):
            return float("inf")  # a single job is limited by its own budget
        reading = sum(
            job.work.seconds(forecast.expected[name], 0.0) * self._per_interval(name)
            for name, job in state.jobs.items()
        )
        return settings.headroom * settings.cores * settings.interval - reading

    def _per_interval(self, name: str) -> float:
        """Batches of a job in one interval of the site."""
        return self.settings.interval / max(
            self.settings.interval_of(name), self.settings.budget_of(name)
        )

    def _costs(self, state: State, names: list[str], job: Ints, work: bool) -> Floats:
        per_job = np.array(
            [
                (state.jobs[name].work.admitting * self._per_interval(name))
                if work and state.jobs[name].work.known
                else state.jobs[name].clock.admitting
                for name in names
            ]
        )
        return per_job[job]

    def _divide(
        self,
        standing: Standing,
        forecast: "Forecast",
        report: Report,
        state: State,
        mine: Bools,
        cost: Floats,
        capacity: float,
    ) -> Floats:
        """The policy's rates for these strata, with a little for everybody."""
        tuples, cost = forecast.tuples[mine], cost[mine]
        total = float((tuples * cost).sum())
        if total <= max(capacity, 0.0):
            return np.ones(tuples.size)
        capacity = max(capacity, self.settings.explore * total * EXPLORE_AT_LEAST)
        least = min(EXPLORE_AT_MOST, self.settings.explore * capacity / total)
        demand = Demand(
            queries=self._standings(standing, report, state),
            query=standing.query[mine],
            tuples=tuples * (1 - least),
            # of one interval, so that all that waits lifts a query from 0 to 1
            sic=standing.tuple_sic[mine] * self.settings.window / self.settings.interval,
            cost=cost,
        )
        rates = self.settings.policy.rates(demand, capacity - least * total)
        return least + (1 - least) * np.asarray(rates, dtype=np.float64)

    def _standings(self, standing: Standing, report: Report, state: State) -> Queries:
        """Where each query stands: its past STW and, twice, what other sites contribute.

        The plan adds what is admitted here; see the module's note on why by half.
        """
        past = standing.sic
        elsewhere = np.array(
            [_elsewhere(state, q, report.now, self.settings.window) for q in standing.queries]
        )
        terms = [self.settings.terms.get(query, Terms()) for query in standing.queries]
        height = past + 2 * elsewhere
        promised = np.array([t.floor if t.floor > 0 else -np.inf for t in terms])
        return Queries(
            sic=height,
            weight=np.array([t.weight for t in terms]),
            floor=promised + past + elsewhere,
            ceiling=np.array([t.ceiling for t in terms]) + past + elsewhere,
        )

    def _check(self, rates: Floats) -> None:
        if rates.size and not (rates.min() >= 0.0 and rates.max() <= 1.0 + 1e-9):
            name = getattr(self.settings.policy, "name", type(self.settings.policy).__name__)
            raise PenstockError(
                f"policy {name!r} gave the rate {_worst(rates)}: a rate lies between 0 and 1"
            )


SOME = 0.1
"""The part of a budget that admitted tuples get in any case."""
REACH = 1.6
"""How much larger than any of late a batch may be that is shed from."""
ROUNDS = 12
"""Attempts at a capacity under which no job takes too long; one or two are the rule."""
COLD_GRACE = 4.0
"""The budget of a job that is warming up, in budgets."""
EXPLORE_AT_MOST = 0.05
"""No stratum is sampled at more than this only to learn about it."""
EXPLORE_AT_LEAST = 0.05
"""Where even reading is too much, so much of the exploration is still done."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next batches bring, by stratum."""

    job: Ints
    tuples: Floats
    expected: Mapping[str, float]
    """Tuples of each job, all strata together."""


def _learn(job: Job, batch: Batch) -> Job:
    arrived, admitted = batch.arrived, batch.admitted
    clock, work = job.clock, job.work
    if arrived or not clock.known:
        clock = clock.update(batch.seconds, arrived, admitted, batch.overhead)
        if batch.work is not None:
            work = work.update(batch.work, arrived, admitted)
    since = None if job.last_start is None else batch.started - job.last_start
    return replace(
        job,
        clock=clock,
        work=work,
        rate=arrived / since if since else job.rate,
        last_start=batch.started,
        batch=batch.number,
        mix=_mixed(job.mix, batch) if arrived else job.mix,
    )


def _mixed(mix: Mapping[Stratum, float], batch: Batch) -> dict[Stratum, float]:
    """Mostly the last batch: a stratum that is new, or floods, must be seen at once."""
    old = {s: part * (1 - NEWS) for s, part in mix.items() if part > 0.01}
    for stratum, count in batch.counts.items():
        old[stratum] = old.get(stratum, 0.0) + NEWS * count.arrived
    return old


NEWS = 0.7
"""How much of what is expected of a batch's strata comes from the last batch."""


def _with_our_share(account: Account, report: Report) -> dict[str, tuple[Told, float]]:
    own = account.sic()
    return {
        query: (told, own.get(query, 0.0))
        for query, told in report.told.items()
        if 0.0 <= told.sic <= 1.0  # nonsense is not believed (law 9)
    }


def _elsewhere(state: State, query: str, now: float, window: float) -> float:
    """What other sites contribute to a query, by the news; old news fades within an STW."""
    if query not in state.told:
        return 0.0
    told, own = state.told[query]
    fresh = max(0.0, 1.0 - max(now - told.at - window, 0.0) / window)
    return (told.sic - own) * fresh


def _worst(rates: Floats) -> float:
    return float(rates[np.argmax(np.abs(np.nan_to_num(rates, nan=np.inf) - 0.5))])
