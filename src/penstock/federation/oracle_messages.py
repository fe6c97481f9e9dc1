"""What the oracle answers, beside its ranking."""

from typing import Literal

from penstock.federation.messages import (
    Address,
    Amount,
    Fraction,
    FragmentStatus,
    LentSource,
    Message,
    QueryStatus,
    SiteStatistics,
)
from penstock.federation.query_file import Name

EventKind = Literal[
    "site-appeared",
    "site-silent",
    "site-back",
    "overload-began",
    "overload-ended",
    "query-appeared",
    "query-gone",
    "fragment-failed",
    "fragment-back",
]


class Event(Message):
    """Is something that happened, and when, in seconds since 1970."""

    at: Amount
    kind: EventKind
    site: str
    query: str = ""
    text: str
    """The same in words."""


class ListedSite(Message):
    """Is a site as the oracle knows it: by its last heartbeat."""

    site: Name
    address: Address
    silent: bool
    """Whether three of its intervals have passed without a heartbeat."""
    age: Amount
    """Seconds since its last heartbeat."""
    interval: Amount
    statistics: SiteStatistics
    sources: dict[Name, LentSource]
    fragments: list[FragmentStatus]


class ListedQuery(QueryStatus):
    """Is a query as the site of its root last told of it."""

    site: Name
    """Where its root runs; of replicas, the one with the better result."""
    silent: bool = False
    """Whether that site is silent, so that the figures are old."""
    age: Amount = 0


class QueriesAnswer(Message):
    """Answers ``GET /queries``: the poorest first; those of which nothing is known come last."""

    queries: list[ListedQuery]
    jain: Fraction | None = None
    """Jain's index of the SIC of all queries of which news is fresh."""
    mean_sic: Fraction | None = None


class SiteMoment(Message):
    """Is what a site was like at a time."""

    at: Amount
    site: str
    throughput: Amount
    latency_ms: Amount
    dropped: Amount
    average_sic: Fraction | None
    fragments_running: int
    fragments_connected: int
    capacity: Amount
    utilisation: Fraction


class QueryMoment(Message):
    """Is what a query was like at a time."""

    at: Amount
    query: str
    site: str
    sic: Fraction | None
    sic_now: Fraction | None
    rows: Amount


class HistoryAnswer(Message):
    """Answers ``GET /history``, the oldest first; of too many, the newest."""

    sites: list[SiteMoment]
    queries: list[QueryMoment]


class EventsAnswer(Message):
    """Answers ``GET /events``, the oldest first; of too many, the newest."""

    events: list[Event]
