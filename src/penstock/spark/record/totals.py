"""What a site reports: totals, SIC and latency of every query since it began."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.fairness import jain
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Batch
from penstock.spark.progress import weighted_quantiles
from penstock.spark.query import SparkJob
from penstock.spark.record.ledger import Ledger


@dataclass
class QueryBook:
    job: str
    arrived: int = 0
    admitted: int = 0
    batches: int = 0


@dataclass
class Books:
    queries: dict[str, QueryBook] = field(default_factory=dict)
    _sic: dict[str, tuple[float, int]] = field(default_factory=dict)

    def note(self, batch: Batch) -> None:
        queries = {stratum.query for stratum in batch.counts}
        if len(queries) == 1:  # as a rule, and there may be thousands of strata
            totals = {queries.pop(): (batch.arrived, batch.admitted)}
        else:
            totals = {}
            for stratum, count in batch.counts.items():
                arrived, admitted = totals.get(stratum.query, (0, 0))
                totals[stratum.query] = arrived + count.arrived, admitted + count.admitted
        for query, (arrived, admitted) in totals.items():
            if arrived:
                book = self.queries.setdefault(query, QueryBook(batch.stream))
                book.arrived += arrived
                book.admitted += admitted
                book.batches += 1

    def sample(self, sic: Mapping[str, float]) -> None:
        for query, value in sic.items():
            total, times = self._sic.get(query, (0.0, 0))
            self._sic[query] = (total + value, times + 1)

    def mean_sic(self, query: str) -> float:
        total, times = self._sic.get(query, (1.0, 1))
        return total / times

    def report(
        self, jobs: Mapping[str, SparkJob], ledger: Ledger, settings: Settings, state: State
    ) -> dict[str, Any]:
        latency = {name: latency_ms(job.latencies) for name, job in jobs.items()}
        return {
            "queries": [
                {
                    "id": query,
                    "arrived": book.arrived,
                    "admitted": book.admitted,
                    "shed": book.arrived - book.admitted,
                    "sic": self.mean_sic(query),
                    "latency_ms": latency.get(book.job, latency_ms([])),
                    "batches": book.batches,
                }
                for query, book in sorted(self.queries.items())
            ],
            "site": {
                "capacity": sum(_capacity(name, settings, state) for name in jobs),
                "utilisation": _utilisation(jobs.values()),
                "jain": jain([self.mean_sic(query) for query in self.queries]),
            },
            "ledger_balanced": ledger.balanced,
        }


def latency_ms(batches: Iterable[tuple[float, float, int]]) -> dict[str, float]:
    """Percentiles over admitted tuples, from arrival to commit.

    A batch takes what arrived since the one before began, so its tuples have waited for anything
    between nothing and that long when it starts.
    """
    kept = [batch for batch in batches if batch[2] > 0]
    if not kept:
        return {"p50": 0.0, "p95": 0.0, "p99": 0.0}
    waited, took, admitted = np.array(kept, dtype=np.float64).T
    steps = (np.arange(40) + 0.5) / 40
    times = (waited[:, None] * steps + took[:, None]).ravel()
    p50, p95, p99 = weighted_quantiles(times, np.repeat(admitted, steps.size), (0.5, 0.95, 0.99))
    return {"p50": p50 * 1000, "p95": p95 * 1000, "p99": p99 * 1000}


def _capacity(name: str, settings: Settings, state: State) -> float:
    """Tuples a second that a job could admit now, if it had the site to itself."""
    job = state.streams.get(name)
    if job is None or job.clock.admitting <= 0:
        return 0.0
    period = max(settings.interval_of(name), settings.budget_of(name))
    spare = settings.budget_of(name) * settings.headroom - job.clock.seconds(job.rate * period, 0.0)
    return max(spare, 0.0) / job.clock.admitting / period


def _utilisation(jobs: Iterable[SparkJob]) -> float:
    """The share of the time in which a batch was running, of the busiest job."""
    shares = [0.0]
    for job in jobs:
        took = sum(batch[1] for batch in job.latencies)
        passed = sum(max(batch[0], batch[1]) for batch in job.latencies)
        if passed:
            shares.append(min(took / passed, 1.0))
    return max(shares)
