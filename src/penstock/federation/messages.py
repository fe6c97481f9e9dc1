"""What sites, coordinators, submitters and the oracle say to each other, as typed JSON."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from penstock.federation.query_file import FederatedQuery, Name


class Message(BaseModel):
    """Is a message; a key that it does not know, NaN or infinity make it a bad one."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="null"
    )


Fraction = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0)]
Address = Annotated[str, Field(max_length=300, pattern=r"^https?://[^\s/]+$")]
Id = Annotated[str, Field(max_length=200)]
SourceName = Annotated[str, Field(max_length=130, pattern=r"^[A-Za-z0-9_.-]+$")]
"""``site.source``; with nothing in it that could make another name of it, such as a view's."""
ColumnName = Annotated[str, Field(max_length=200, pattern=r"^[^`'\"();]+$")]
"""Of what others say, and becomes a part of SQL."""


class Place(Message):
    """Says which site runs a fragment, and where that site listens."""

    site: Name
    address: Address


class LentSource(Message):
    """Describes a source that a site lends: its columns as in CREATE TABLE, and its event time."""

    columns: Annotated[str, Field(max_length=20_000)]
    time: ColumnName | None = None
    rate: Amount = 0.0
    """Tuples a second, as last seen."""


class FragmentOrder(Message):
    """``POST /fragments``: asks a site to run a fragment of a query.

    The site cuts the query into fragments itself, with the code that whoever asks has used. So
    what it is asked to run is never more than the SQL that a person wrote.
    """

    query: FederatedQuery
    fragment: Name
    replica: Annotated[int, Field(ge=0, le=2)] = 0
    incarnation: Annotated[int, Field(ge=0)] = 0
    """One more with each time that the fragment is moved."""
    places: Annotated[dict[Name, list[Place]], Field(max_length=64)]
    """For each fragment its places: one, or as many as it has replicas."""
    catalog: Annotated[dict[SourceName, LentSource], Field(max_length=256)]
    """The sources that the query reads, as ``site.source``."""
    schemas: Annotated[dict[Name, str], Field(max_length=64)] = {}
    """For each fragment that this one reads, the columns of its link."""
    submitter: Annotated[str, Field(max_length=64)] = ""


class FragmentAnswer(Message):
    """Answers ``POST /fragments``: the columns of the link that the fragment writes."""

    id: Id
    columns: str = ""


class SicUpdate(Message):
    """``POST /update-sic``: what a query's result is worth (THEMIS, section 6)."""

    query: Name
    sic: Fraction
    at: Amount
    """The time, in seconds, at which that was true."""
    seq: Annotated[int, Field(ge=0)]


RUNNING, FAILED, STOPPED = "running", "failed", "stopped"
"""The states of a fragment; its site starts one that has failed again."""
LONGEST_TROUBLE_CHARACTERS = 300


class FragmentStatus(Message):
    """Says how a fragment of a site is doing."""

    id: Id
    query: Name
    fragment: Name
    state: Annotated[str, Field(max_length=40)] = RUNNING
    trouble: Annotated[str, Field(max_length=LONGEST_TROUBLE_CHARACTERS)] = ""
    """Why it has failed."""
    incarnation: Annotated[int, Field(ge=0)] = 0
    arrived: Amount = 0
    admitted: Amount = 0
    rows: Amount = 0
    """Rows that it has sent on."""
    sends_to: Annotated[list[Id], Field(max_length=64)] = []
    """The fragments that read what it sends."""


class QueryStatus(Message):
    """Says how a query is doing whose root is at a site."""

    query: Name
    sic: Fraction | None = None
    """The mean over time."""
    sic_now: Fraction | None = None
    rows: Amount = 0
    latency_ms: dict[str, float] = {}
    latency_measured: bool | None = None
    """Whether that is from the arrival of tuples, and not modelled; None where nobody says."""
    fragments: int = 0
    sites: list[Name] = []
    updates_sent: Amount = 0
    update_bytes_max: Amount = 0
    moved: Amount = 0
    weight: Annotated[float, Field(gt=0)] = 1
    floor: Fraction = 0
    ceiling: Amount | None = None
    """The terms in force at the site of the root; without a ceiling there is no bound."""


class SiteStatistics(Message):
    """``GET /statistics``: the six figures of the thesis' statistics manager (4.3.2), and more."""

    throughput: Amount = 0
    """Tuples admitted a second, over the STW."""
    latency_ms: Amount = 0
    """The p95 from a tuple's arrival to the commit of its batch, of the worst query."""
    latency_measured: bool | None = None
    """Whether that is from the arrival of tuples, and not modelled; None where nobody says."""
    latency_target_ms: Amount = 0
    """The latency that its file asks for; 0 where it does not say."""
    dropped: Amount = 0
    """Tuples shed a second, over the STW."""
    average_sic: Fraction | None = None
    """Of the queries of which it runs fragments, by what coordinators say."""
    fragments_running: int = 0
    fragments_connected: int = 0
    """Fragments at other sites that its own send to or hear from."""
    capacity: Amount = 0
    utilisation: Fraction = 0
    refused: dict[str, int] = {}
    """Messages and queries that it did not accept, by reason."""
    backlog: Amount | None = None
    """Tuples that wait at its sources beyond the newest batches; None where these cannot tell."""
    held_back_by: Annotated[dict[Name, str], Field(max_length=1000)] = {}
    """For each query that a limit of its source holds back, the option that is the limit."""


class CountedTuples(Message):
    """Says how many tuples of a query a site has counted over the STW, and with which variance."""

    tuples: Amount
    variance: Amount


class SiteSources(Message):
    """Answers ``GET /sources``: what a site is called, and which sources it lends."""

    site: Name
    sources: dict[Name, LentSource]


class Heartbeat(Message):
    """``POST /sites``: what a site tells the oracle, once an interval."""

    site: Name
    address: Address
    seq: Annotated[int, Field(ge=0)]
    interval: Annotated[float, Field(gt=0, le=3600)] = 2.0
    """Seconds to its next one; a site that is not heard of for three of them is silent."""
    statistics: SiteStatistics
    sources: Annotated[dict[Name, LentSource], Field(max_length=256)] = {}
    fragments: Annotated[list[FragmentStatus], Field(max_length=1000)] = []
    queries: Annotated[list[QueryStatus], Field(max_length=1000)] = []
    counted: Annotated[dict[Name, CountedTuples], Field(max_length=1000)] = {}
    """What came of the sources of each query here."""


class RankedSite(Message):
    """Is one line of the oracle's ranking."""

    site: Name
    address: Address
    statistics: SiteStatistics
    sources: dict[Name, LentSource] = {}
    age: Amount = 0
    """Seconds since its last heartbeat."""


class RankingAnswer(Message):
    """Answers ``GET /ranking``: the sites that live, the best first."""

    by: str
    sites: list[RankedSite]
