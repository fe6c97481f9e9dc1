"""How much: what waits, what it would cost, and what may be spent on it.

A batch of a job may take its *budget*: as long as its interval and the latency asked for allow,
less some headroom. Its cost model says how many tuples that is. All jobs together may use the
site's processors, less the same headroom.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.account import Account
from penstock.core.settings import Settings
from penstock.core.state import Job, State
from penstock.core.types import Bools, Floats, Ints, Upcoming

SOME = 0.1
"""The part of a budget that admitted tuples get in any case."""
REACH = 1.6
"""How much larger than any of late a batch may be that is shed from."""
COLD_GRACE = 4.0
"""The budget of a job that is warming up, in budgets."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next batches bring, by stratum."""

    job: Ints
    tuples: Floats
    expected: Mapping[str, float]
    """Tuples of each job, all strata together."""
    weight: Floats
    """How many tuples of its job's cost models a tuple counts for."""
    seen: Bools
    """Strata of which somebody has counted what waits; the others are expected as of late."""


@dataclass(frozen=True)
class Capacity:
    """Estimates from what the state holds; it keeps nothing itself."""

    settings: Settings

    def forecast(self, state: State, account: Account, starting: Upcoming | None) -> Forecast:
        """What each job's next batch brings: what waits, or the strata that it had of late."""
        job_of = np.full(len(account.strata), -1, dtype=np.int64)
        tuples, weight = np.zeros(len(account.strata)), np.ones(len(account.strata))
        counted = np.zeros(len(account.strata), dtype=np.bool_)
        expected: dict[str, float] = {}
        for number, (name, job) in enumerate(state.jobs.items()):
            expected[name] = self.expected(name, job, starting)
            seen = starting.waiting if starting is not None and starting.job == name else None
            comes = job.mix if seen is None else seen
            places = account.index.places(comes.strata)
            known = places >= 0
            mine, counts = places[known], comes.arrived[known]
            job_of[mine] = number
            counted[mine] = seen is not None
            scale = 1.0 if seen is not None else expected[name] / max(counts.sum(), 1e-12)
            tuples[mine] = counts * scale
            if job.costs:
                weight[mine] = [job.weight(account.strata[place]) for place in mine.tolist()]
        return Forecast(job_of, tuples, expected, weight, counted)

    def expected(self, name: str, job: Job, starting: Upcoming | None) -> float:
        if starting is None or starting.job != name:
            return job.rate * self.settings.interval_of(name)
        if starting.arrived is not None:
            return float(starting.arrived)
        return job.rate * max(starting.waited, self.settings.interval_of(name))

    def spare(self, name: str, job: Job, expected: float, starting: Upcoming | None) -> float:
        """Seconds that the next batch of a job has for tuples that are admitted.

        Where some must be shed anyway, less for tuples that have waited longer than they should,
        so that the lateness is made up, and no more than somewhat beyond what was tried of late:
        what a model says of batches much larger than it has seen is a guess. Where reading alone
        takes too long, still some: to admit nothing would gain little and tell nothing. A job
        that is warming up is given more: a first batch that is slow says little.
        """
        budget, admitting = self.settings.budget_of(name), job.clock.admitting * job.heaviness
        reading = job.clock.seconds(expected, 0.0)
        if job.clock.cold:
            return max(COLD_GRACE * budget - reading, budget * SOME)
        spare = budget * self.settings.headroom - reading
        if starting is not None and starting.job == name and admitting * expected > spare:
            late = starting.waited - max(self.settings.interval_of(name), budget)
            spare -= min(max(late, 0.0), budget / 2)
            spare = min(spare, max(REACH * job.clock.admitting * job.clock.largest, budget / 4))
        return max(spare, budget * SOME)

    def of_site(self, state: State, forecast: Forecast) -> float:
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

    def costs(self, state: State, names: list[str], forecast: Forecast, work: bool) -> Floats:
        """Of a tuple of each stratum."""
        per_job = np.array(
            [
                (state.jobs[name].work.admitting * self._per_interval(name))
                if work and state.jobs[name].work.known
                else state.jobs[name].clock.admitting
                for name in names
            ]
        )
        return np.asarray(per_job[forecast.job] * forecast.weight)
