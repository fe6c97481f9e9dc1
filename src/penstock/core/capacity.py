"""How much: what waits, what it would cost, and what may be spent on it.

A batch of a stream may take its *budget*: as long as its interval and the latency asked for
allow, less some headroom. The cost model says how many tuples that is. All streams together may
use the site's processors, less the same headroom.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.account import Account
from penstock.core.demand import Forecast
from penstock.core.settings import Settings
from penstock.core.state import State, StreamState
from penstock.core.types import Floats, Upcoming

LEAST_BUDGET_SHARE = 0.1
"""The part of a budget that admitted tuples get in any case."""
MOST_TIMES_LARGEST = 1.6
"""So many times the largest batch of late a batch may admit that is shed from."""
COLD_BUDGETS = 4.0
"""The budget of a stream that is warming up, in budgets."""


@dataclass(frozen=True)
class Capacity:
    """Estimates from what the state holds; it keeps nothing itself.

    A controller can be given another one, ``Controller(settings, capacity=...)``.
    """

    settings: Settings

    def forecast(self, state: State, account: Account, starting: Upcoming | None) -> Forecast:
        """Answers what each stream's next batch brings: what waits, or its strata of late."""
        stream_of = np.full(len(account.strata), -1, dtype=np.int64)
        tuples, weight = np.zeros(len(account.strata)), np.ones(len(account.strata))
        counted = np.zeros(len(account.strata), dtype=np.bool_)
        expected: dict[str, float] = {}
        for number, (name, stream) in enumerate(state.streams.items()):
            expected[name] = self.expected(name, stream, starting)
            seen = starting.waiting if starting is not None and starting.stream == name else None
            comes = stream.mix if seen is None else seen
            places = account.strata.places(comes.strata)
            known = places >= 0
            mine, counts = places[known], comes.arrived[known]
            stream_of[mine] = number
            counted[mine] = seen is not None
            scale = 1.0 if seen is not None else expected[name] / max(counts.sum(), 1e-12)
            tuples[mine] = counts * scale
            if stream.costs:
                weight[mine] = [stream.weight(account.strata[place]) for place in mine.tolist()]
        return Forecast(stream_of, tuples, expected, weight, counted)

    def expected(self, name: str, stream: StreamState, starting: Upcoming | None) -> float:
        """Answers how many tuples the next batch of a stream brings."""
        if starting is None or starting.stream != name:
            return stream.rate * self.settings.interval_of(name)
        if starting.arrived is not None:
            return float(starting.arrived)
        return stream.rate * max(starting.waited, self.settings.interval_of(name))

    def spare(
        self, name: str, stream: StreamState, expected: float, starting: Upcoming | None
    ) -> float:
        """Answers the seconds that a stream's next batch has for tuples that are admitted.

        Where some must be shed anyway, less for tuples that have waited longer than they should,
        so that the lateness is made up, and no more than somewhat beyond what was tried of late:
        what a model says of batches much larger than it has seen is a guess. Where reading alone
        takes too long, still some: to admit nothing would gain little and tell nothing. A stream
        that is warming up is given more: a first batch that is slow says little.
        """
        budget, clock = self.settings.budget_of(name), stream.clock
        reading = clock.seconds(expected, 0.0)
        if clock.cold:
            return max(COLD_BUDGETS * budget - reading, budget * LEAST_BUDGET_SHARE)
        spare = budget * self.settings.headroom - reading
        needed = clock.admitting * stream.mean_weight * expected
        if starting is not None and starting.stream == name and needed > spare:
            late = starting.waited - max(self.settings.interval_of(name), budget)
            spare -= min(max(late, 0.0), budget / 2)
            most = MOST_TIMES_LARGEST * clock.admitting * clock.largest
            spare = min(spare, max(most, budget / 4))
        return max(spare, budget * LEAST_BUDGET_SHARE)

    def of_site(self, state: State, forecast: Forecast) -> float:
        """Answers the processor seconds an interval for admitted tuples of all streams."""
        settings = self.settings
        if len(state.streams) < 2 or not all(each.work.known for each in state.streams.values()):
            return float("inf")  # a single stream is limited by its own budget
        reading = sum(
            stream.work.seconds(forecast.expected[name], 0.0) * self._per_interval(name)
            for name, stream in state.streams.items()
        )
        return settings.headroom * settings.cores * settings.interval - reading

    def _per_interval(self, name: str) -> float:
        """Answers how many batches a stream has in one interval of the site."""
        return self.settings.interval / max(
            self.settings.interval_of(name), self.settings.budget_of(name)
        )

    def costs(self, state: State, names: list[str], forecast: Forecast, work: bool) -> Floats:
        """Answers what a tuple of each stratum costs, in processor seconds or by the clock."""
        per_stream = np.array(
            [
                (state.streams[name].work.admitting * self._per_interval(name))
                if work and state.streams[name].work.known
                else state.streams[name].clock.admitting
                for name in names
            ]
        )
        return np.asarray(per_stream[forecast.stream] * forecast.weight)
