"""Holds what a site reports of itself: frozen, typed, and ``to_dict()`` for JSON."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from penstock.core.types import Floats
from penstock.core.window_shedding import Drift
from penstock.spark.gate.arrival_metrics import RANKS
from penstock.spark.progress import weighted_quantiles
from penstock.spark.query import BatchLatency


@dataclass(frozen=True)
class LatencyReport:
    """Holds milliseconds from a tuple's arrival to its batch's commit, over admitted tuples.

    They are measured where the stream tells when its tuples arrived. Where only some gates of a
    query know that, they are those of the tuples that went through these.
    """

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    measured: bool = False
    """Whether that is from the tuples' arrivals, and not modelled."""

    @classmethod
    def of(cls, batches: Iterable[BatchLatency]) -> "LatencyReport":
        """Sums up the batches of a query: those that were measured, or else all."""
        known = [batch for batch in batches if batch.admitted > 0]
        ages = [batch.ages for batch in known if batch.ages is not None]
        if ages:
            weights = [batch.measured for batch in known if batch.ages is not None]
            return cls._of(np.stack(ages).astype(np.float64), weights, measured=True)
        if not known:
            return cls()
        return cls._of(_modelled(known), [batch.admitted for batch in known], measured=False)

    @classmethod
    def _of(cls, ages: Floats, weights: list[int], *, measured: bool) -> "LatencyReport":
        """Takes a row of ages, in seconds, for each batch, and the tuples that it stands for."""
        each = np.repeat(np.array(weights, dtype=np.float64), ages.shape[1])
        p50, p95, p99 = weighted_quantiles(ages.ravel() * 1000, each, (0.5, 0.95, 0.99))
        return cls(p50, p95, p99, measured)


def _modelled(batches: Iterable[BatchLatency]) -> Floats:
    """Models the ages of tuples by those of their batches.

    A batch takes what arrived since the one before began, so its tuples have waited for anything
    between nothing and that long when it starts. What a read limit leaves behind is not in that.
    """
    waited, took = np.array([(b.waited, b.seconds) for b in batches], dtype=np.float64).T
    ages: Floats = waited[:, None] * np.array(RANKS) + took[:, None]
    return ages


@dataclass(frozen=True)
class QueryReport:
    """Reports on one query since the site began.

    ``arrived``, ``admitted`` and ``shed`` are the gates' account, which is the ledger's: the first
    is the sum of the others. Of what was admitted, guards have shed or skipped ``lost_in_guards``,
    ``lost_late`` came too late for the watermark, and ``process_windows`` has left out
    ``lost_in_windows``; the last two are estimates. The SIC at the result knows of all of them.
    """

    id: str
    arrived: int = 0
    admitted: int = 0
    shed: int = 0
    lost_in_guards: int = 0
    lost_late: int = 0
    lost_in_windows: int = 0
    sic: float = 1.0
    """The mean over time of ``sic_now``."""
    sic_now: float | None = None
    """The share of what its sources sent that reached the result, over the last STW; None where
    nothing is known of that time."""
    gate_sic: float = 1.0
    """The mean over time of the SIC at its gates, of which nothing behind them is missing."""
    latency_ms: LatencyReport = field(default_factory=LatencyReport)
    batches: int = 0
    backlog: int | None = None
    """Tuples that waited at its sources beyond the newest batch; None where these cannot tell."""
    held_back_by: str | None = None
    """The option that limits what a batch may read, where that and not the machine is what keeps
    the query from more: then shedding buys nothing, and setting the option higher does."""
    let_in_per_second: float | None = None
    """Tuples that this option lets in, where it holds the query back."""
    arriving_per_second: float | None = None
    """Tuples that arrive meanwhile, where the sources tell."""
    drift: Drift | None = None
    """How the groups of a query with a concept changed over the last two panes of its windows."""
    would_shed: int | None = None
    """Tuples that a site which only watches would have shed; None of one that sheds."""
    would_latency_ms: float | None = None
    """The p95 that would have come of that, modelled; None of a site that sheds."""


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
    watch: bool = False
    """Whether the site only watches: then it sheds nothing."""

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
