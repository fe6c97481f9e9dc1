"""The windows of all queries with a concept: what the controller is given to shed inside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from penstock.core.demand import Filling, Forecast
from penstock.core.settings import Settings
from penstock.core.standing import Standing
from penstock.core.types import Batch, Floats, Strata, Stratum
from penstock.core.window_shedding import Asked, Drift
from penstock.windows.concept import Concept
from penstock.windows.goals import shares_of_quota, wanted
from penstock.windows.merged import with_groups_merged
from penstock.windows.window import Window


@dataclass(frozen=True)
class ConceptWindows:
    """How far each query's window has filled, of the queries that have a concept.

    >>> from penstock.core.controller import Controller
    >>> from penstock.core.settings import QueryTerms, Settings
    >>> from penstock.policy import get
    >>> settings = Settings(policy=get("concept"), terms={"q": QueryTerms(concept=Concept("1m"))})
    >>> controller = Controller(settings, windows=ConceptWindows())
    """

    by_query: Mapping[str, Window] = field(default_factory=dict)

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self.by_query)

    @property
    def groups(self) -> tuple[Stratum, ...]:
        return tuple(chain.from_iterable(window.groups for window in self.by_query.values()))

    def drift_of(self, query: str) -> Drift | None:
        window = self.by_query.get(query)
        return None if window is None else window.drift

    def record(self, batch: Batch, settings: Settings) -> "tuple[ConceptWindows, Batch]":
        """Answers the windows with a batch recorded, and the batch with their groups merged."""
        concepts = _concepts(settings)
        windows = dict(self.by_query)
        for query, concept in concepts.items():
            counts = {s: count for s, count in batch.counts.items() if s.query == query}
            if counts:
                window = windows.get(query)
                if window is None or window.concept != concept:
                    window = Window.of(concept)
                values = {s: some for s, some in batch.values.items() if s.query == query}
                clock = batch.clocks.get(query, batch.started)
                windows[query] = window.record(clock, counts, values, batch.rates)
        return ConceptWindows(windows), with_groups_merged(batch, concepts)

    def at(self, now: float, settings: Settings) -> "ConceptWindows":
        """Answers the windows as they will be when the next batch comes.

        The time of a window that goes by event time is a guess from its last batches.
        """
        concepts = _concepts(settings)
        return ConceptWindows(
            {
                query: window.at(window.ahead() if window.concept.time else now)
                for query, window in self.by_query.items()
                if query in concepts
            }
        )

    def ask(self, strata: Strata, standing: Standing, forecast: Forecast) -> Asked:
        """Answers what queries ask for; one without a window asks for all that comes."""
        if not self.by_query:
            return Asked.all_of(forecast)
        stream, tuples = forecast.stream.copy(), forecast.tuples.copy()
        rates = np.ones(tuples.size)
        filling = Filling(
            np.zeros(tuples.size), np.zeros(tuples.size), tuples.copy(), np.ones(tuples.size)
        )
        for number, query in enumerate(standing.queries):
            window = self.by_query.get(query)
            if window is None:
                continue
            mine = np.flatnonzero(standing.query == number)
            groups = tuple(strata[place] for place in mine.tolist())
            own, shares = window.filling(groups)
            tuples[mine] = _as_in_window(tuples[mine], shares)
            stream[mine] = stream[mine].max(initial=-1)
            own = replace(own, share=shares_of_quota(window, groups, own))
            rates[mine] = wanted(window, groups, own, tuples[mine])
            for name in ("arrived", "admitted", "rest", "share"):
                getattr(filling, name)[mine] = getattr(own, name)
        asked = replace(forecast, stream=stream, tuples=tuples * rates)
        return Asked(asked, rates, filling)


def _concepts(settings: Settings) -> dict[str, Concept]:
    return {
        query: terms for query, terms in settings.concepts.items() if isinstance(terms, Concept)
    }


def _as_in_window(of_late: Floats, shares: Floats) -> Floats:
    """Mixes what comes as the window was so far, which is steadier than the last batch."""
    total = float(shares.sum())
    return of_late if total <= 0 else shares * (float(of_late.sum()) / total)
