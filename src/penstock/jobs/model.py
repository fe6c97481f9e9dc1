"""Says what may stand in a job file, and of which type it is."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.core.settings import USUAL_SETTLE_SECONDS
from penstock.errors import PenstockError
from penstock.units import amount, seconds
from penstock.windows.concept import Concept

EVERY_SOURCE = "*"
"""Stands for every source of a query, where strata are given by source."""
USUAL_CONFIDENCE = 0.95
"""The confidence of the intervals that ``bounds: true`` asks for."""
USUAL_LATENESS_SECONDS = 10.0
"""How late tuples of a stream may be that can be out of order and names no watermark."""


def _duration(value: Any) -> float:
    return _positive(seconds(value), "a duration longer than 0, such as '1s' or '500ms'")


def _amount(value: Any) -> float:
    return _positive(amount(value), "an amount above 0, such as 2000 or '200k'")


def _positive(number: float, rule: str) -> float:
    if number <= 0:
        raise ValueError(f"expected {rule}")
    return number


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _strata(value: Any) -> Any:
    given = value if isinstance(value, dict) else {EVERY_SOURCE: value}
    if not all(_are_names(names) for names in given.values()):
        raise ValueError("expected a column, a list of columns, or one of both for each source")
    return given


def _are_names(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)
    )


def confidence_of(value: Any) -> float | None:
    """Reads ``bounds``: true, false or a confidence."""
    if isinstance(value, bool):
        return USUAL_CONFIDENCE if value else None
    if isinstance(value, int | float) and 0 < value < 1:
        return float(value)
    raise ValueError("expected true, false or a confidence such as 0.95")


def _option(value: Any) -> str:
    """Makes a text of a value, since Spark takes texts only."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("expected a text, a number, true or false")


Duration = Annotated[float, BeforeValidator(_duration)]
Lateness = Annotated[float, BeforeValidator(seconds)]
Amount = Annotated[float, BeforeValidator(_amount)]
Names = Annotated[list[str], BeforeValidator(_listed)]
Share = Annotated[float, Field(ge=0, le=1)]
Option = Annotated[str, BeforeValidator(_option)]


class JobFilePart(BaseModel):
    """Is a mapping of the file; a key that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ProfileEntry(JobFilePart):
    """Says from when on a replayed stream comes how many times as fast."""

    at: Lateness
    factor: Annotated[float, Field(ge=0)]


class SourceEntry(JobFilePart):
    """Describes a stream.

    ``format`` is replay, rate, files (with ``path`` and ``schema``), or one of Spark's.
    """

    format: str
    path: str | None = None
    time: str | None = None
    watermark: Lateness | None = None
    arrival: str | None = None
    """When a tuple arrived at the source: a column as it comes, or an SQL expression over them."""
    rate: Amount | None = None
    speed: Annotated[float, Field(gt=0)] | None = None
    loop: bool | None = None
    profile: list[ProfileEntry] | None = None
    generator: str | None = None
    ddl: Annotated[str | None, Field(alias="schema")] = None
    """The columns of the stream, as in ``CREATE TABLE``."""
    id: Names = []
    """Columns that tell tuples apart."""
    columns: dict[str, str] = {}
    """SQL expressions that Spark computes behind the gate; they are the place for parsing."""
    options: dict[str, Option] = {}
    static: bool = False
    """Whether this is a table to join with, which is read once and not gated."""
    comes_and_goes: bool = False
    """Whether the source may have nothing to send, so that its silence is no loss."""

    @model_validator(mode="after")
    def _consistent(self) -> "SourceEntry":
        if self.format != "replay":
            for key in ("speed", "loop", "profile", "generator"):
                if getattr(self, key) is not None:
                    raise ValueError(f"{key!r} is for format: replay; others take 'options'")
            if self.rate is not None and self.format != "rate":
                raise ValueError("'rate' is for the formats replay and rate")
        if self.watermark is not None and self.event_time is None:
            raise ValueError("'watermark' needs 'time', the event-time column")
        if self.static and self.format in ("replay", "rate"):
            raise ValueError(f"format: {self.format} is a stream; 'static' is for tables")
        if self.static and self.arrival is not None:
            raise ValueError("'arrival' is for streams; a table that is 'static' has none")
        return self

    @property
    def event_time(self) -> str | None:
        """The event-time column; a generated stream has the time of its arrival."""
        if self.time is None and self.format == "replay" and self.generator is not None:
            return "_arrival"
        return "timestamp" if self.time is None and self.format == "rate" else self.time

    @property
    def lateness(self) -> float:
        """How late tuples may be, in seconds; a replayed stream is sorted."""
        if self.watermark is not None:
            return self.watermark
        return 0.0 if self.format == "replay" else USUAL_LATENESS_SECONDS


class SinkEntry(JobFilePart):
    """Says where the results of a query go."""

    format: str = "console"
    path: str | None = None
    options: dict[str, Option] = {}


class ConceptEntry(JobFilePart):
    """Says how the groups of a query's windows share what is admitted; see ``penstock.Concept``."""

    window: float | str
    slide: float | str | None = None
    by: Literal["equal", "neyman"] = "equal"
    keep: float | str | None = None
    error: float | str | None = None
    confidence: float = 0.95
    value: str | None = None
    time: str | None = None
    join: bool = False

    @model_validator(mode="after")
    def _sound(self) -> "ConceptEntry":
        try:
            self.concept()
        except PenstockError as error:
            raise ValueError(str(error).removeprefix("concept: ")) from None
        return self

    def concept(self) -> Concept:
        """The same as the library's own value."""
        return Concept(**self.model_dump())


class QueryEntry(JobFilePart):
    """Describes a query: its SQL, how it takes part in sharing, and where its results go."""

    sql: str
    strata: Annotated[dict[str, Names], BeforeValidator(_strata)] = {}
    """The columns of its strata, by source; ``EVERY_SOURCE`` stands for all of them."""
    weight: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    floor: Share = 0.0
    ceiling: Share | None = None
    bounds: Annotated[float | None, BeforeValidator(confidence_of)] = None
    """The confidence of the intervals around estimates; ``true`` is 95 %."""
    concept: ConceptEntry | None = None
    """Given where the strata are groups of the query's windows and no group may disappear."""
    one_to_one: bool = False
    """Promises that no tuple of a join has more than one partner."""
    mode: Literal["append", "update", "complete"] = "append"
    interval: Duration | None = None
    sink: SinkEntry = SinkEntry()


class JobFile(JobFilePart):
    """Is a whole job file."""

    site: str = "site"
    interval: Duration = 1.0
    latency: Duration | None = None
    stw: Duration | None = None
    policy: str = "balance-sic"
    headroom: Annotated[float, Field(gt=0, le=1)] = 0.9
    watch: bool = False
    """Whether to shed nothing, and only to tell what would be shed."""
    checkpoint: str | None = None
    """A directory; a job file that is run again goes on where it was."""
    directory: str | None = None
    """Where the ledger is, and what was learnt, on the driver's disk; in ``checkpoint`` unless
    told."""
    settle_within: Lateness = USUAL_SETTLE_SECONDS
    """How long ``penstock settle`` can go back; 0 keeps nothing for it."""
    spark: dict[str, Option] = {}
    """Settings of the Spark session, such as ``spark.master``."""
    sources: Annotated[dict[str, SourceEntry], Field(min_length=1)]
    queries: Annotated[dict[str, QueryEntry], Field(min_length=1)]
