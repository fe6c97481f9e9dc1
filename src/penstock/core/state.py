"""What the controller remembers from one step to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.account import Account
from penstock.core.cost import CostModel, ThreeTermCost, passing_seconds
from penstock.core.demand import keeps_paid
from penstock.core.governor import Governor, Took
from penstock.core.settings import Settings
from penstock.core.types import Batch, CoordinatorNews, Report, Strata, Stratum, Tally
from penstock.core.window_shedding import WindowsInForce

LAST_BATCH_SHARE = 0.7
"""How much of what is expected of a batch's strata comes from the last batch."""
FEWEST_EXPECTED_TUPLES = 0.01
"""A stratum of which fewer are expected is forgotten."""


@dataclass(frozen=True)
class StreamState:
    """What is known of one stream, that is one streaming query of Spark, on this site."""

    clock: CostModel = field(default_factory=ThreeTermCost)
    """Seconds that a batch takes."""
    work: CostModel = field(default_factory=ThreeTermCost)
    """Processor seconds that a batch uses."""
    governor: Governor = field(default_factory=Governor)
    """What the clock says of the next batch."""
    rate: float = 0.0
    """Tuples a second, of late."""
    last_start: float | None = None
    """When the last batch started."""
    batch: int = -1
    """The number of the last batch."""
    mix: Tally = field(default_factory=lambda: Tally.of({}))
    """What arrives in a batch, of late."""
    costs: Mapping[Stratum, float] = field(default_factory=dict)
    """What a tuple of a stratum costs, where a guard measures; in seconds of the guard's clock."""
    unit: float = 0.0
    """The cost of the tuple that the cost models count as one; 0 while no guard has told any."""
    clock_told: bool = False
    """Whether ``clock`` was told what guards measured, which happens once."""
    work_told: bool = False
    """Whether ``work`` was told it."""

    def weight(self, stratum: Stratum) -> float:
        """Answers how many tuples a tuple of this stratum counts for in the cost models."""
        return self.costs.get(stratum, self.unit) / self.unit if self.unit > 0 else 1.0

    @property
    def mean_weight(self) -> float:
        """How many tuples a tuple of the mix counts for, on average."""
        total = float(self.mix.arrived.sum())
        if not self.costs or total <= 0:
            return 1.0
        weights = np.array([self.weight(stratum) for stratum in self.mix.strata])
        return float((weights * self.mix.arrived).sum()) / total

    def weighed(self, batch: Batch) -> float:
        """Answers what a batch admitted, in tuples of the cost models."""
        if not self.costs:
            return batch.admitted
        return sum(count.admitted * self.weight(s) for s, count in batch.counts.items())


@dataclass(frozen=True)
class State:
    """All that the controller knows. It can be pickled, so that a site can save it."""

    version: int = 0
    """Of the last plan."""
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    account: Account | None = None
    """None until the first step."""
    told: Mapping[str, CoordinatorNews] = field(default_factory=dict)
    """What coordinators said, by query."""
    own: tuple[tuple[float, Mapping[str, float]], ...] = ()
    """Times, and what this site had contributed to each query's SIC by then; see ``news``."""
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What each source carries of its query's SIC, where a report said so."""
    partial: frozenset[tuple[str, str]] = frozenset()
    """Sources that are partial results of other sites."""
    windows: WindowsInForce | None = None
    """How far the windows of queries with a concept have filled; None until the first step."""


def learn(stream: StreamState, batch: Batch, settings: Settings) -> StreamState:
    """Answers what is known of a stream with one more batch seen."""
    if batch.costs:
        stream = _priced(stream, batch)
    arrived, admitted = batch.arrived, stream.weighed(batch)
    clock, work = stream.clock, stream.work
    if arrived or not clock.known:
        span = None if stream.costs else batch.span  # a guard tells better what tuples cost
        clock = clock.update(batch.seconds, arrived, admitted, batch.overhead, span)
        if batch.work is not None:
            work = work.update(batch.work, arrived, admitted)
    tell = stream.unit > 0 and admitted > 0
    tell_clock = tell and clock.known and not stream.clock_told
    tell_work = tell and work.known and not stream.work_told
    if tell_clock:
        alone = (batch.seconds - (batch.overhead or 0.0)) / admitted
        clock = clock.informed(min(stream.unit, alone))
    if tell_work:
        work = work.informed(stream.unit)
    since = None if stream.last_start is None else batch.started - stream.last_start
    return replace(
        stream,
        clock=clock,
        work=work,
        governor=_governed(stream, batch, settings) if arrived else stream.governor,
        rate=arrived / since if since else stream.rate,
        last_start=batch.started,
        batch=batch.number,
        mix=_mixed(stream.mix, batch) if arrived else stream.mix,
        clock_told=stream.clock_told or tell_clock,
        work_told=stream.work_told or tell_work,
    )


def _governed(stream: StreamState, batch: Batch, settings: Settings) -> Governor:
    """Answers the bounds on the next batch; in tuples of the cost models, as all that counts."""
    budget, admitted = settings.budget_of(batch.stream), stream.weighed(batch)
    passing = passing_seconds(batch.seconds, batch.span, batch.overhead)
    took = Took(
        seconds=batch.seconds,
        passing=None if np.isnan(passing) else passing,
        expected=stream.clock.seconds(batch.arrived, admitted),
    )
    share = batch.admitted / batch.arrived
    arrived = admitted / share if share else float(batch.arrived)
    return stream.governor.after(took, arrived, admitted, budget, budget * settings.headroom)


def _priced(stream: StreamState, batch: Batch) -> StreamState:
    """Answers the stream with its costs by stratum.

    The unit is the first batch's average cost, so that the cost models need not jump. A stratum
    that has not come of late is forgotten, so that there are no more costs than strata.
    """
    alive = {*stream.mix.strata, *batch.counts}
    known = {stratum: cost for stratum, cost in stream.costs.items() if stratum in alive}
    costs = {**known, **{s: (known.get(s, c) + c) / 2 for s, c in batch.costs.items()}}
    counts = dict(batch.counts.items())
    tuples = [max(counts[s].admitted, 1) if s in counts else 1 for s in batch.costs]
    total = sum(n * c for n, c in zip(tuples, batch.costs.values(), strict=True))
    return replace(stream, costs=costs, unit=stream.unit or total / sum(tuples))


def _mixed(mix: Tally, batch: Batch) -> Tally:
    """Answers mostly the last batch: a stratum that is new, or floods, must be seen at once."""
    tally = Tally.of(batch.counts)
    newest = LAST_BATCH_SHARE * tally.arrived
    if not mix:
        return replace(tally, arrived=newest)
    if tally.strata == mix.strata:
        return replace(tally, arrived=(1 - LAST_BATCH_SHARE) * mix.arrived + newest)
    amounts = {
        stratum: part * (1 - LAST_BATCH_SHARE)
        for stratum, part in zip(mix.strata, mix.arrived.tolist(), strict=True)
        if part > FEWEST_EXPECTED_TUPLES
    }
    for stratum, arrived in zip(tally.strata, newest.tolist(), strict=True):
        amounts[stratum] = amounts.get(stratum, 0.0) + arrived
    columns = np.array(list(amounts.values()))
    return Tally(Strata(amounts), columns, np.zeros(columns.size))


def passing(state: State, settings: Settings) -> frozenset[tuple[str, str]]:
    """Answers the sources whose tuples only pass: they are not ours to give, so not our share."""
    return state.partial if keeps_paid(settings.policy) else frozenset()


def with_shares(state: State, report: Report) -> State:
    """Answers the state with a report's word on sources: shares, and which are partial results."""
    partial = state.partial | report.partial if report.partial else state.partial
    shares = {**state.shares, **report.shares} if report.shares else state.shares
    return replace(state, shares=shares, partial=partial)
