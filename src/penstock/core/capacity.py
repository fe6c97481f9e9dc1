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
"""The part of a budget that admitted tuples get, however long reading takes."""
LEAST_IN_ANY_CASE = 0.01
"""The part that they get whatever the clock says, so that no stream stops its site."""
USUAL_BATCH_FACTOR = 1.5
"""A batch that reads up to so many times the usual is planned like any other: what a slow batch
leaves to the next dies out by itself, and to make up for it at once would only hand it on."""
QUIET_SPREAD = 0.05
"""What batches may vary by, in log time, without more headroom."""


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

        Less for tuples that have waited longer than they should, so that the lateness is made up,
        and within what the clock allows, see ``governor``. Where reading alone takes too long,
        still some: to admit nothing would gain little and tell nothing.
        """
        clock, interval = stream.clock, self.settings.interval_of(name)
        budget = self._budget(name, stream, starting)
        usual = stream.rate * max(interval, budget)
        is_usual = expected <= USUAL_BATCH_FACTOR * usual
        reading = clock.seconds(usual if is_usual else expected, 0.0)
        planned = budget * self.planned_share(stream)
        if starting is not None and starting.stream == name:
            # the oldest tuple must still be in time, unless it is too late for that
            planned = min(planned, max(2 * budget - starting.waited, budget / 2))
        cheap = budget * LEAST_BUDGET_SHARE
        spare, price = max(planned - reading, cheap), clock.admitting
        if price > 0.0:
            spare = price * stream.governor.bounded(spare / price, expected, cheap / price)
        return max(spare, budget * LEAST_IN_ANY_CASE)

    def planned_share(self, stream: StreamState) -> float:
        """Answers the part of a batch's budget that is planned: less where its times vary more."""
        return self.settings.headroom / (1.0 + max(stream.clock.spread - QUIET_SPREAD, 0.0))

    def _budget(self, name: str, stream: StreamState, starting: Upcoming | None) -> float:
        """Answers the seconds that a batch may take.

        Where a read limit lets more wait at the source than can be read in time, the next batch
        should begin as soon as its trigger is due: only that catches up.
        """
        budget = self.settings.budget_of(name)
        if starting is None or starting.stream != name or not starting.read_limited:
            return budget
        readable = 2 * budget * stream.rate  # within the latency; nothing while no rate is known
        late = stream.rate > 0 and (starting.backlog or 0.0) > readable
        return min(budget, self.settings.interval_of(name)) if late else budget

    def of_site(self, state: State, forecast: Forecast) -> float:
        """Answers the processor seconds an interval for admitted tuples of all streams.

        Where the streams take all that is planned by themselves, still some, as in ``spare``: at
        next to nothing a policy has nothing to level queries with, while the site reads all of it.
        """
        settings = self.settings
        if len(state.streams) < 2 or not all(each.work.known for each in state.streams.values()):
            return float("inf")  # a single stream is limited by its own budget
        reading = sum(
            stream.work.seconds(forecast.expected[name], 0.0) * self._per_interval(name)
            for name, stream in state.streams.items()
        )
        whole = settings.cores * settings.interval
        return max(settings.headroom * whole - reading, LEAST_BUDGET_SHARE * whole)

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
