"""What the controller remembers from one step to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.account import Account
from penstock.cost import ThreeTermCost
from penstock.types import Batch, Report, Stratum, Told


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


def learn(job: Job, batch: Batch) -> Job:
    """The job with one more batch seen."""
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


def with_our_share(account: Account, report: Report) -> dict[str, tuple[Told, float]]:
    own = account.sic() if report.told else {}
    return {
        query: (told, own.get(query, 0.0))
        for query, told in report.told.items()
        if 0.0 <= told.sic <= 1.0  # nonsense is not believed (law 9)
    }


def elsewhere(state: State, query: str, now: float, window: float) -> float:
    """What other sites contribute to a query, by the news; old news fades within an STW."""
    if query not in state.told:
        return 0.0
    told, own = state.told[query]
    fresh = max(0.0, 1.0 - max(now - told.at - window, 0.0) / window)
    return (told.sic - own) * fresh
