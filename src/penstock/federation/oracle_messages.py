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
    "held-back",
    "held-back-no-more",
]


class Event(Message):
    """Is something that happened, and when, in seconds since 1970."""

    at: Amount
    kind: EventKind
    site: str
    query: str = ""
    text: str
    """The same in words."""


class ListedFragment(FragmentStatus):
    """Is a fragment as its site last told of it, with what flows."""

    arrived_per_second: Amount = 0
    rows_per_second: Amount = 0
    """What it sent on, between the last two heartbeats."""


class ListedSite(Message):
    """Is a site as the oracle knows it: by its last heartbeat."""

    site: Name
    address: Address
    silent: bool
    """Whether three of its intervals have passed without a heartbeat."""
    overdue: bool = False
    """Whether it should have been heard of by now; it may be silent, or only slow."""
    age: Amount
    """Seconds since its last heartbeat."""
    interval: Amount
    statistics: SiteStatistics
    sources: dict[Name, LentSource]
    fragments: list[ListedFragment]


class ListedQuery(QueryStatus):
    """Is a query as the site of its root last told of it."""

    site: Name
    """Where its root runs; of replicas, the one with the better result."""
    silent: bool = False
    """Whether that site is silent, so that the figures are old."""
    age: Amount = 0
    arrived: Amount = 0
    admitted: Amount = 0
    shed: Amount = 0
    """Tuples of its sources, at the gates of the fragments that read these."""
    interval_width: Amount | None = None
    """Half the width of the interval of 95 % around a count of its tuples over the STW, as a share
    of that count; 0 where nothing was shed."""


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


class FairnessMoment(Message):
    """Is how fairly all queries fared at a time."""

    at: Amount
    jain: Fraction
    mean_sic: Fraction
    queries: int


class HistoryAnswer(Message):
    """Answers ``GET /history``, the oldest first; of too many, the newest."""

    sites: list[SiteMoment]
    queries: list[QueryMoment]


class FairnessAnswer(Message):
    """Answers ``GET /fairness``, the oldest first; of too many, the newest."""

    moments: list[FairnessMoment]


class EventsAnswer(Message):
    """Answers ``GET /events``, the oldest first; of too many, the newest."""

    events: list[Event]
