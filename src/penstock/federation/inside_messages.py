"""What a site tells of its gates and guards from inside, and what it lets others change."""

from typing import Annotated

from pydantic import Field

from penstock.federation.messages import Amount, Fraction, Message
from penstock.federation.query_file import Name

MOST_STRATA_TOLD = 200
"""Of a gate; those of which it sheds most."""
MOST_KEYS_TOLD = 20
"""Of a guard; the dearest."""


class StratumInside(Message):
    """Is a stratum of a gate: what came over the last STW, and what the plan in force gives it."""

    query: str
    source: str
    group: str = ""
    arrived: Amount
    admitted: Amount
    worth: Amount
    """The SIC of one of its tuples."""
    rate: Fraction
    """The share that the plan admits."""


class GateInside(Message):
    """Is what stands behind the plan in force for the gates of one stream, and why."""

    stream: str
    """A Spark query, or a fragment."""
    interval_seconds: Amount
    budget_seconds: Amount
    """How long a batch may take such that the latency is held."""
    headroom: Fraction
    """The share of it that is planned."""
    fixed_seconds: Amount
    """What the cost model believes that a batch takes however little is in it."""
    arriving_seconds: Amount
    """What it believes of each tuple that arrives."""
    admitting_seconds: Amount
    """And what more of each that is admitted."""
    expected: Amount
    """Tuples that it expects in the next batch."""
    planned: Amount
    """Tuples of them that the plan admits."""
    believed_seconds: Amount
    """What it believes that such a batch takes."""
    last_seconds: Amount | None = None
    """How long the last batch took."""
    strata: Annotated[list[StratumInside], Field(max_length=MOST_STRATA_TOLD)]
    strata_in_all: int


class KeyInside(Message):
    """Is a key of a guard, and what one of its tuples costs."""

    key: str
    seconds: Amount


class GuardInside(Message):
    """Is a guard: what it has done, and the keys whose tuples cost most."""

    guard: str
    function: str
    arrived: Amount
    kept: Amount
    shed: Amount
    failed: Amount
    wait_ms: Amount
    """What tuples may wait on average."""
    recent_wait_ms: Amount
    mean_cost_ms: Amount
    dearest: Annotated[list[KeyInside], Field(max_length=MOST_KEYS_TOLD)]


class SiteInside(Message):
    """Answers ``GET /inside``: the gates and guards of a site, and the plan in force."""

    policy: str
    plan: int
    """The number of the plan in force."""
    latency_seconds: Amount
    gates: list[GateInside]
    guards: list[GuardInside] = Field(default_factory=list)


class TermsChange(Message):
    """``POST /terms``: gives a query other terms; what is not said stays as it is."""

    query: Name
    weight: Annotated[float, Field(gt=0, le=1000)] | None = None
    floor: Fraction | None = None
    ceiling: Annotated[float, Field(ge=0, le=1)] | None = None
    """1 takes the bound away."""


class TermsAnswer(Message):
    """Answers it: the terms in force from the next batch on."""

    query: Name
    weight: float
    floor: Fraction
    ceiling: Amount | None = None


class LatencyChange(Message):
    """``POST /latency``: gives a site another latency to hold."""

    seconds: Annotated[float, Field(gt=0, le=86_400)]


class LatencyAnswer(Message):
    """Answers it: the latency in force from the next batch on."""

    seconds: Amount
