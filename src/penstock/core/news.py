"""What coordinators say of queries, and what other sites therefore contribute.

The news is old when it comes. What this site has admitted since is not in it yet, and to lift
a query once more for what is already on its way is how several sites come to swing together.
So the site remembers what it contributed itself, and compares the news with what was true at the
time that the news speaks of.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.core.settings import Settings
from penstock.core.standing import Standing
from penstock.core.state import State
from penstock.core.types import Floats, Report

NEWS_LIFE_STWS = 2
"""News that is older than so many STWs is forgotten."""


def remember(state: State, standing: Standing, report: Report, settings: Settings) -> State:
    """Answers the state with what coordinators said, and what this site contributes now."""
    if not state.told and not report.told:
        return state  # without coordinators nothing needs remembering
    oldest = report.now - NEWS_LIFE_STWS * settings.stw_seconds
    old = next((n for n, (when, _) in enumerate(state.own) if when > oldest), len(state.own))
    # what stands ahead of now was noted before the clock was set back
    past = (note for note in state.own[old:] if note[0] <= report.now)
    own = (*past, (report.now, standing.by_name()))
    # a site does not believe nonsense (law 9)
    heard = {query: news for query, news in report.told.items() if 0.0 <= news.sic <= 1.0}
    told = {**state.told, **heard}
    if len(told) > len(heard):
        told = {query: news for query, news in told.items() if news.at > oldest}
    return replace(state, own=own, told=told)


def sic_elsewhere(state: State, queries: tuple[str, ...], now: float, stw: float) -> Floats:
    """Answers what other sites contribute to queries, by the news; old news fades in an STW."""
    found = np.zeros(len(queries))
    if not state.told:
        return found
    then: dict[float, tuple[Mapping[str, float], float]] = {}
    for i, query in enumerate(queries):
        told = state.told.get(query)
        if told is not None:
            at = told.at
            if at not in then:
                age = now - at - stw
                fresh = 1.0 if age <= 0.0 else max(0.0, 1.0 - age / stw)
                then[at] = _own_sic_at(state.own, at), fresh
            own, fresh = then[at]
            found[i] = (told.sic - own.get(query, 0.0)) * fresh
    return found


def _own_sic_at(
    own: tuple[tuple[float, Mapping[str, float]], ...], time: float
) -> Mapping[str, float]:
    """Answers the newest entry that is not younger, or the oldest."""
    for when, mine in reversed(own):
        if when <= time:
            return mine
    return own[0][1]
