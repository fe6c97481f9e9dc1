"""Asks the oracle how a federation is, again and again, and remembers what the SIC was."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_messages import ListedSite, QueriesAnswer

MOST_MOMENTS = 30
"""How many values of a query's SIC are remembered, the newest last."""
MOST_LATENCIES = 10
"""The same of a site's latency."""
HISTORY_SECONDS = 300.0
"""How far back the oracle is asked at the beginning."""


@dataclass(frozen=True)
class FederationMoment:
    """Says how a federation is at a moment, as far as its oracle knows."""

    sites: list[ListedSite]
    queries: QueriesAnswer
    sic: Mapping[str, list[float]]
    """What each query's SIC was, the newest last."""
    latency_ms: Mapping[str, list[float]]
    """What each site's latency was, the newest last."""

    def json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "sites": [site.model_dump(mode="json") for site in self.sites],
            **self.queries.model_dump(mode="json"),
        }


class OracleWatch:
    """Looks at a federation through its oracle."""

    def __init__(self, client: OracleClient) -> None:
        self._client = client
        self._sic: dict[str, deque[float]] = {}
        self._latency_ms: dict[str, deque[float]] = {}
        self._asked_history = False

    def look(self) -> FederationMoment:
        """Asks the oracle; raises a ``CallError`` where it does not answer."""
        if not self._asked_history:
            self._ask_history()
        answer = self._client.queries()
        for query in answer.queries:
            if query.sic_now is not None:
                self._note(query.query, query.sic_now)
        sites = self._client.sites()
        for site in sites:
            if not site.silent:
                self._note_latency(site.site, site.statistics.latency_ms)
        sic = {name: list(values) for name, values in self._sic.items()}
        late = {name: list(values) for name, values in self._latency_ms.items()}
        return FederationMoment(sites, answer, sic, late)

    def _ask_history(self) -> None:
        told = self._client.history(since=max(0.0, time.time() - HISTORY_SECONDS))
        for moment in told.queries:
            if moment.sic_now is not None:
                self._note(moment.query, moment.sic_now)
        for site in told.sites:
            self._note_latency(site.site, site.latency_ms)
        self._asked_history = True

    def _note(self, query: str, sic: float) -> None:
        self._sic.setdefault(query, deque(maxlen=MOST_MOMENTS)).append(sic)

    def _note_latency(self, site: str, milliseconds: float) -> None:
        self._latency_ms.setdefault(site, deque(maxlen=MOST_LATENCIES)).append(milliseconds)
