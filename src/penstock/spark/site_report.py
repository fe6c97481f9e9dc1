"""Holds what a site reports of itself: frozen, typed, and ``to_dict()`` for JSON."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from penstock.spark.progress import weighted_quantiles
from penstock.spark.query import BatchLatency

STEPS_PER_BATCH = 40
"""How many ages stand for the tuples of a batch in the percentiles."""


@dataclass(frozen=True)
class LatencyReport:
    """Holds milliseconds from a tuple's arrival to its batch's commit, over admitted tuples."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0

    @classmethod
    def of(cls, batches: Iterable[BatchLatency]) -> "LatencyReport":
        """Models the ages of tuples by those of their batches.

        A batch takes what arrived since the one before began, so its tuples have waited for
        anything between nothing and that long when it starts.
        """
        known = [batch for batch in batches if batch.admitted > 0]
        if not known:
            return cls()
        waited, took, admitted = np.array(known, dtype=np.float64).T
        steps = (np.arange(STEPS_PER_BATCH) + 0.5) / STEPS_PER_BATCH
        ages = (waited[:, None] * steps + took[:, None]).ravel() * 1000
        return cls(*weighted_quantiles(ages, np.repeat(admitted, steps.size), (0.5, 0.95, 0.99)))


@dataclass(frozen=True)
class QueryReport:
    """Reports on one query since the site began.

    ``arrived``, ``admitted`` and ``shed`` are the gates' account, which is the ledger's: the first
    is the sum of the others. What guards behind the gates shed or skipped, of what was admitted, is
    in ``lost_in_guards``; the SIC knows of both.
    """

    id: str
    arrived: int = 0
    admitted: int = 0
    shed: int = 0
    lost_in_guards: int = 0
    sic: float = 1.0
    """The mean over time of the SIC over the STW."""
    latency_ms: LatencyReport = field(default_factory=LatencyReport)
    batches: int = 0


@dataclass(frozen=True)
class CapacityReport:
    """Reports on the site as a whole."""

    capacity: float
    """Tuples a second that its queries could admit now."""
    utilisation: float
    """The share of the time in which a batch was running, of the busiest query."""
    jain: float
    """Jain's index of the queries' SIC: 1 where all have the same."""


@dataclass(frozen=True)
class SiteReport:
    """Is what ``Site.report()`` returns.

    Examples
    --------
    >>> report = SiteReport((), CapacityReport(0.0, 0.0, 1.0), (), True)
    >>> report.to_dict()["ledger_balanced"]
    True
    """

    queries: tuple[QueryReport, ...]
    site: CapacityReport
    guards: tuple[dict[str, Any], ...]
    ledger_balanced: bool

    def __getitem__(self, query: str) -> QueryReport:
        """Returns the report of one query."""
        for report in self.queries:
            if report.id == query:
                return report
        raise KeyError(query)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, as ``penstock run --report`` writes them."""
        told = asdict(self)
        told["queries"] = list(told["queries"])
        guards = told.pop("guards")
        return {**told, "guards": list(guards)} if guards else told
