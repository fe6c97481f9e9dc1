"""What the controller remembers from one step to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.account import Account, Standing
from penstock.core.cost import ThreeTermCost
from penstock.core.settings import Settings
from penstock.core.types import (
    OTHERS,
    Batch,
    CoordinatorNews,
    Count,
    Floats,
    Report,
    Stratum,
    Tally,
)
from penstock.policy.base import keeps_paid
from penstock.windows.concept import Concept
from penstock.windows.window import Window


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
    mix: Tally = field(default_factory=lambda: Tally.of({}))
    """What arrives in a batch, of late."""
    costs: Mapping[Stratum, float] = field(default_factory=dict)
    """What a tuple of a stratum costs, where a guard told; in seconds of its own clock."""
    unit: float = 0.0
    """The cost of the tuple that the cost models count as one; 0 while no guard told any."""
    clock_told: bool = False
    """Whether the model of the clock knows what guards measured; each is told once."""
    work_told: bool = False

    def weight(self, stratum: Stratum) -> float:
        """How many tuples a tuple of this stratum counts for in the cost models."""
        return self.costs.get(stratum, self.unit) / self.unit if self.unit > 0 else 1.0

    @property
    def heaviness(self) -> float:
        """The weight of a tuple of the mix, on average."""
        total = float(self.mix.arrived.sum())
        if not self.costs or total <= 0:
            return 1.0
        weights = np.array([self.weight(stratum) for stratum in self.mix.strata])
        return float((weights * self.mix.arrived).sum()) / total

    def weighed(self, batch: Batch) -> float:
        """What a batch admitted, in tuples of the cost models."""
        if not self.costs:
            return batch.admitted
        return sum(count.admitted * self.weight(s) for s, count in batch.counts.items())


@dataclass(frozen=True)
class State:
    version: int = 0
    jobs: Mapping[str, Job] = field(default_factory=dict)
    account: Account | None = None
    told: Mapping[str, CoordinatorNews] = field(default_factory=dict)
    """What a coordinator said of a query."""
    own: tuple[tuple[float, Mapping[str, float]], ...] = ()
    """When, and what this site contributed to each query's SIC over the STW before; as long as
    there can be news of that time."""
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What each source carries of its query's SIC, where somebody said so."""
    partial: frozenset[tuple[str, str]] = frozenset()
    """Sources that are partial results of other sites."""
    overloaded: bool = False
    windows: Mapping[str, Window] = field(default_factory=dict)
    """Of queries with a concept: how far their windows have filled."""


def learn(job: Job, batch: Batch) -> Job:
    """The job with one more batch seen."""
    if batch.costs:
        job = _priced(job, batch)
    arrived, admitted = batch.arrived, job.weighed(batch)
    clock, work = job.clock, job.work
    if arrived or not clock.known:
        # where a guard says what tuples cost, and where some are shed, there is better to go by
        span = batch.span if batch.admitted == arrived and not job.costs else None
        clock = clock.update(batch.seconds, arrived, admitted, batch.overhead, span)
        if batch.work is not None:
            work = work.update(batch.work, arrived, admitted)
    tell = job.unit > 0 and admitted > 0
    tell_clock = tell and clock.known and not job.clock_told
    tell_work = tell and work.known and not job.work_told
    if tell_clock:
        alone = (batch.seconds - (batch.overhead or 0.0)) / admitted
        clock = clock.informed(min(job.unit, alone))
    if tell_work:
        work = work.informed(job.unit)
    since = None if job.last_start is None else batch.started - job.last_start
    return replace(
        job,
        clock=clock,
        work=work,
        rate=arrived / since if since else job.rate,
        last_start=batch.started,
        batch=batch.number,
        mix=_mixed(job.mix, batch) if arrived else job.mix,
        clock_told=job.clock_told or tell_clock,
        work_told=job.work_told or tell_work,
    )


def _priced(job: Job, batch: Batch) -> Job:
    """With costs by stratum; the unit is the first batch's average: models need not jump.

    What has not come of late is forgotten, so that there are no more costs than strata.
    """
    alive = {*job.mix.strata, *batch.counts}
    known = {stratum: cost for stratum, cost in job.costs.items() if stratum in alive}
    costs = {**known, **{s: (known.get(s, c) + c) / 2 for s, c in batch.costs.items()}}
    counts = dict(batch.counts.items())
    tuples = [max(counts[s].admitted, 1) if s in counts else 1 for s in batch.costs]
    total = sum(n * c for n, c in zip(tuples, batch.costs.values(), strict=True))
    return replace(job, costs=costs, unit=job.unit or total / sum(tuples))


def _mixed(mix: Tally, batch: Batch) -> Tally:
    """Mostly the last batch: a stratum that is new, or floods, must be seen at once."""
    tally = Tally.of(batch.counts)
    if not mix:
        return replace(tally, arrived=NEWS * tally.arrived)
    if tally.strata is mix.strata:
        return replace(tally, arrived=(1 - NEWS) * mix.arrived + NEWS * tally.arrived)
    amounts = {
        stratum: part * (1 - NEWS)
        for stratum, part in zip(mix.strata, mix.arrived.tolist(), strict=True)
        if part > 0.01
    }
    for stratum, arrived in zip(tally.strata, (NEWS * tally.arrived).tolist(), strict=True):
        amounts[stratum] = amounts.get(stratum, 0.0) + arrived
    columns = np.array(list(amounts.values()))
    return Tally(tuple(amounts), columns, np.zeros(columns.size))


def fill(
    windows: Mapping[str, Window], concepts: Mapping[str, Concept], batch: Batch
) -> dict[str, Window]:
    """The windows with one more batch seen, of the queries that were in it."""
    filled = dict(windows)
    for query, concept in concepts.items():
        counts = {s: count for s, count in batch.counts.items() if s.query == query}
        if counts:
            window = filled.get(query)
            if window is None or window.concept != concept:
                window = Window.of(concept)
            values = {s: some for s, some in batch.values.items() if s.query == query}
            clock = batch.clocks.get(query, batch.started)
            filled[query] = window.record(clock, counts, values, batch.rates)
    return filled


def lumped(batch: Batch, concepts: Mapping[str, Concept]) -> Batch:
    """With the groups of such queries as one: their windows count them, and forget them in time."""
    if not concepts:
        return batch
    counts: dict[Stratum, Count] = {}
    for stratum, count in batch.counts.items():
        if stratum.query in concepts:
            stratum = stratum._replace(group=OTHERS)
        have = counts.get(stratum, Count(0, 0))
        counts[stratum] = Count(have.arrived + count.arrived, have.admitted + count.admitted)
    return replace(batch, counts=counts, costs=_lumped_costs(batch, concepts))


def _lumped_costs(batch: Batch, concepts: Mapping[str, Concept]) -> dict[Stratum, float]:
    """A lump costs what its tuples cost on average, of those that somebody timed."""
    counts = dict(batch.counts.items())
    sums: dict[Stratum, tuple[float, float]] = {}
    for stratum, cost in batch.costs.items():
        weight = float(max(counts[stratum].admitted, 1)) if stratum in counts else 1.0
        if stratum.query in concepts:
            stratum = stratum._replace(group=OTHERS)
        tuples, total = sums.get(stratum, (0.0, 0.0))
        sums[stratum] = tuples + weight, total + weight * cost
    return {stratum: total / tuples for stratum, (tuples, total) in sums.items()}


NEWS = 0.7
"""How much of what is expected of a batch's strata comes from the last batch."""


def with_shares(state: State, report: Report, settings: Settings) -> State:
    """With what was said of sources: their shares, and which are partial results."""
    partial = state.partial | report.partial if report.partial else state.partial
    shares = {**state.shares, **report.shares} if report.shares else state.shares
    if partial and keeps_paid(settings.policy):
        shares = {**shares, **dict.fromkeys(partial, 0.0)}  # not ours to give, so not our share
    return replace(state, shares=shares, partial=partial)


def remember(state: State, standing: Standing, report: Report, settings: Settings) -> State:
    """With what coordinators said, and what this site contributes at the time."""
    if not state.told and not report.told:
        return state  # nobody tells, and nothing needs remembering
    oldest = report.now - 2 * settings.window
    old = next((n for n, (when, _) in enumerate(state.own) if when > oldest), len(state.own))
    own = (*state.own[old:], (report.now, standing.by_name()))
    # nonsense is not believed (law 9)
    heard = {query: news for query, news in report.told.items() if 0.0 <= news.sic <= 1.0}
    told = {**state.told, **heard}
    if len(told) > len(heard):
        told = {query: news for query, news in told.items() if news.at > oldest}
    return replace(state, own=own, told=told)


def elsewhere(state: State, queries: tuple[str, ...], now: float, window: float) -> Floats:
    """What other sites contribute to queries, by the news; old news fades within an STW.

    The news is old when it comes. What this site has admitted since is not in it yet, and to lift
    a query once more for what is already on its way is how several sites come to swing together.
    So our own share is taken as it was at the time that the news speaks of.
    """
    found = np.zeros(len(queries))
    if not state.told:
        return found
    then: dict[float, tuple[Mapping[str, float], float]] = {}
    for i, query in enumerate(queries):
        told = state.told.get(query)
        if told is not None:
            at = told.at
            if at not in then:
                age = now - at - window
                then[at] = _at(state.own, at), 1.0 if age <= 0.0 else max(0.0, 1.0 - age / window)
            own, fresh = then[at]
            found[i] = (told.sic - own.get(query, 0.0)) * fresh
    return found


def _at(own: tuple[tuple[float, Mapping[str, float]], ...], time: float) -> Mapping[str, float]:
    """The newest entry that is not younger, or the oldest."""
    for when, mine in reversed(own):
        if when <= time:
            return mine
    return own[0][1]
