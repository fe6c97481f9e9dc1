"""What a site was asked for: its interval, its latency, its policy, and each query's terms."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.errors import PenstockError
from penstock.policy import Policy
from penstock.policy.balance_sic import BalanceSic
from penstock.windows.concept import Concept


@dataclass(frozen=True)
class QueryTerms:
    """What a query was promised; see ``types.Queries``."""

    weight: float = 1.0
    floor: float = 0.0
    ceiling: float = float("inf")
    concept: Concept | None = None
    """Where its strata are groups of a window, and no group may disappear."""

    def __post_init__(self) -> None:
        for name in ("weight", "floor", "ceiling"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise PenstockError(f"{name}: expected a number, found {value!r}")
        if not self.weight > 0:
            raise PenstockError(f"weight: must be greater than 0, not {self.weight}")
        if not 0 <= self.floor <= 1:
            raise PenstockError(f"floor: a SIC between 0 and 1, not {self.floor}")
        if not self.ceiling >= self.floor:
            raise PenstockError(f"ceiling: {self.ceiling} lies below the floor, {self.floor}")


def impossible(interval: float, latency: float | None, stw: float | None) -> tuple[str, str] | None:
    """Which of these cannot be, and why; or None."""
    if latency is not None and latency <= interval:
        why = f"{latency:g} s cannot be held: a tuple waits for up to an interval, {interval:g} s"
        return "latency", f"{why}; give two of them, or shorten the interval"
    if stw is not None and stw < interval:
        return (
            "stw",
            f"{stw:g} s is shorter than an interval, {interval:g} s; ten of them are usual",
        )
    return None


@dataclass(frozen=True)
class Settings:
    interval: float = 1.0
    """Seconds between the starts of two micro-batches (δ)."""
    latency: float | None = None
    """Seconds from a tuple's arrival to its result; two intervals unless told."""
    stw: float | None = None
    """Seconds over which SIC is accounted; ten intervals or ten seconds, whichever is more."""
    policy: Policy = field(default_factory=BalanceSic)
    headroom: float = 0.9
    """The share of the budget that is planned; the rest absorbs noise."""
    explore: float = 0.02
    """The share of the capacity that samples every stratum, whatever it is worth."""
    cores: float = 1.0
    """Processor seconds that the site has in a second."""
    terms: Mapping[str, QueryTerms] = field(default_factory=dict)
    intervals: Mapping[str, float] = field(default_factory=dict)
    """Of jobs whose trigger differs from the site's."""

    def __post_init__(self) -> None:
        if wrong := impossible(self.interval, self.latency, self.stw):
            raise PenstockError(": ".join(wrong))

    @property
    def concepts(self) -> dict[str, Concept]:
        """Of queries that have one."""
        found = {query: terms.concept for query, terms in self.terms.items()}
        return {query: concept for query, concept in found.items() if concept is not None}

    def with_concept(self, query: str, concept: Concept) -> "Settings":
        terms = replace(self.terms.get(query, QueryTerms()), concept=concept)
        return replace(self, terms={**self.terms, query: terms})

    def interval_of(self, job: str) -> float:
        return self.intervals.get(job, self.interval)

    def budget_of(self, job: str) -> float:
        """How long a batch may take such that waiting for it and it stay within the latency.

        A tuple waits for at most the larger of the interval and the batch before its own.
        """
        interval = self.interval_of(job)
        latency = 2 * interval if self.latency is None else self.latency
        return max(latency - interval, interval / 4) if latency < 2 * interval else latency / 2

    @property
    def window(self) -> float:
        return max(10.0, 10 * self.interval) if self.stw is None else self.stw
