"""Calls the oracle."""

from penstock.federation.client import HttpCaller, payload
from penstock.federation.messages import Heartbeat, RankingAnswer
from penstock.federation.oracle_messages import (
    Event,
    EventsAnswer,
    HistoryAnswer,
    ListedSite,
    QueriesAnswer,
)
from penstock.federation.query_file import Ranking


class OracleClient(HttpCaller):
    """Calls the oracle; what it raises where nobody answers is a ``CallError``."""

    def heartbeat(self, beat: Heartbeat) -> None:
        """Tells the oracle how a site is doing."""
        self.call("POST", "/sites", dict[str, bool], body=payload(beat))

    def sites(self) -> list[ListedSite]:
        """Asks for all sites."""
        return self.get("/sites", list[ListedSite])

    def ranking(self, by: Ranking = "least-loaded") -> RankingAnswer:
        """Asks which sites are the best places for fragments."""
        return self.get("/ranking", RankingAnswer, {"by": by})

    def queries(self) -> QueriesAnswer:
        """Asks for all queries, the poorest first."""
        return self.get("/queries", QueriesAnswer)

    def history(
        self, *, query: str | None = None, site: str | None = None, since: float = 0.0
    ) -> HistoryAnswer:
        """Asks what sites and queries were like since a time."""
        return self.get("/history", HistoryAnswer, {"query": query, "site": site, "since": since})

    def events(self, since: float = 0.0) -> list[Event]:
        """Asks what has happened since a time."""
        return self.get("/events", EventsAnswer, {"since": since}).events
