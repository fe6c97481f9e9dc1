"""What a site was asked for: its interval, its latency, its policy, and each query's terms."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.core.declared import Declared
from penstock.core.demand import Policy
from penstock.errors import PenstockError

USUAL_SETTLE_SECONDS = 86_400.0
"""How long what it takes to settle a batch is kept unless told."""


class WindowTerms(Protocol):
    """What a query was promised of each of its windows; ``penstock.Concept`` is how to say it."""

    @property
    def length(self) -> float:
        """The seconds that a window spans."""

    @property
    def pane(self) -> float:
        """The seconds from one window's end to the next one's."""


@dataclass(frozen=True)
class QueryTerms:
    """What a query was promised.

    ``weight`` scales its share of the site, ``floor`` is the SIC that it is promised before
    anybody gets more, and ``ceiling`` the SIC above which it yields to everybody else.
    """

    weight: float = 1.0
    floor: float = 0.0
    ceiling: float = float("inf")
    concept: WindowTerms | None = None
    """Given where the query's strata are groups of a window, and no group may disappear."""
    guest: bool = False
    """Whether it is somebody else's query, to which the site only lends."""

    def __post_init__(self) -> None:
        for name in ("weight", "floor", "ceiling"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise PenstockError(f"{name} must be a number, such as 0.5; got {value!r}")
        if not self.weight > 0:
            raise PenstockError(f"weight must be greater than 0, such as 2; got {self.weight}")
        if not 0 <= self.floor <= 1:
            raise PenstockError(f"floor must lie between 0 and 1, such as 0.1; got {self.floor}")
        if not self.ceiling >= self.floor:
            raise PenstockError(
                f"ceiling must not be below the floor, {self.floor}; got {self.ceiling}"
            )


def check_timing(
    interval: float, latency: float | None, stw: float | None
) -> tuple[str, str] | None:
    """Answers the name of the setting that cannot be held, and why; or None."""
    if latency is not None and latency <= interval:
        why = f"{latency:g} s cannot be held: a tuple waits for up to an interval, {interval:g} s"
        return "latency", f"{why}; give two of them, or shorten the interval"
    if stw is not None and stw < interval:
        return (
            "stw",
            f"{stw:g} s is shorter than an interval, {interval:g} s; ten of them are usual",
        )
    return None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that a controller was asked for; ``policy`` is one of ``penstock.policy`` or your own."""

    policy: Policy
    interval: float = 1.0
    """Seconds between the starts of two micro-batches (δ)."""
    latency: float | None = None
    """Seconds from a tuple's arrival to its result; two intervals where it is None."""
    stw: float | None = None
    """Seconds over which SIC is accounted; ``stw_seconds`` says how many where it is None."""
    headroom: float = 0.9
    """The share of the budget that is planned; the rest absorbs noise."""
    explore: float = 0.02
    """The share of the capacity that samples every stratum, whatever it is worth."""
    cores: float = 1.0
    """Processor seconds that the site has in a second."""
    terms: Mapping[str, QueryTerms] = field(default_factory=dict)
    """What each query was promised, by query."""
    intervals: Mapping[str, float] = field(default_factory=dict)
    """The intervals of streams whose trigger differs from the site's, by stream."""
    sources: Declared = field(default_factory=dict)
    """The sources that queries declare, by query; others have those that are seen."""

    def __post_init__(self) -> None:
        if wrong := check_timing(self.interval, self.latency, self.stw):
            raise PenstockError(": ".join(wrong))

    @property
    def stw_seconds(self) -> float:
        """The length of the STW: ten intervals or ten seconds, whichever is more, unless given."""
        return max(10.0, 10 * self.interval) if self.stw is None else self.stw

    @property
    def concepts(self) -> dict[str, WindowTerms]:
        """What queries were promised of their windows, of the queries that have any."""
        found = {query: terms.concept for query, terms in self.terms.items()}
        return {query: concept for query, concept in found.items() if concept is not None}

    def with_concept(self, query: str, concept: WindowTerms) -> "Settings":
        """Answers the settings with this promised to a query of its windows."""
        terms = replace(self.terms.get(query, QueryTerms()), concept=concept)
        return replace(self, terms={**self.terms, query: terms})

    @property
    def target_seconds(self) -> float:
        """The latency that is held: two intervals unless given."""
        return 2 * self.interval if self.latency is None else self.latency

    def interval_of(self, stream: str) -> float:
        """Answers the seconds between the starts of two micro-batches of a stream."""
        return self.intervals.get(stream, self.interval)

    def budget_of(self, stream: str) -> float:
        """Answers how many seconds a batch may take such that the latency is held.

        A tuple waits for at most the larger of the interval and the batch before its own.
        """
        interval = self.interval_of(stream)
        latency = 2 * interval if self.latency is None else self.latency
        return max(latency - interval, interval / 4) if latency < 2 * interval else latency / 2
