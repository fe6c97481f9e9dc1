"""Reads what Spark reports of a micro-batch, and computes the quantiles of latencies.

Everything that wants to know how a batch went, the site, the demo and the benchmarks alike, reads
Spark's progress report here, so that only this file changes with Spark's wording.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from penstock.core.types import Floats

STATEFUL_OPERATORS = {
    "Aggregate": "stateStoreSave",
    "Join": "symmetricHashJoin",
    "Deduplicate": "dedupe",
    "DeduplicateWithinWatermark": "dedupeWithinWatermark",
    "TransformWithStateInPySpark": "transformWithStateInPandasExec",
}
"""Nodes of a plan that drop late rows, as Spark's progress calls them."""


@dataclass(frozen=True)
class SourceProgress:
    """Says how far one source of the query came in a batch; offsets are the source's own."""

    start: Any
    end: Any
    latest: Any
    rows: int


@dataclass(frozen=True)
class Progress:
    """Holds what Spark reports of one trigger of a streaming query; times are seconds."""

    query: str
    """Spark's id of the query, which its checkpoint keeps over restarts."""
    run: str
    name: str | None
    batch: int
    started: float
    """Seconds since the epoch."""
    seconds: float
    overhead: float
    """The part of ``seconds`` that does not go into running the batch."""
    planning: float
    """The part that goes into planning it."""
    ran: bool
    """Whether a batch ran at all; an idle trigger reports, too."""
    rows: int
    observed: Mapping[str, Any]
    """Observed metrics, by the name that they were observed under."""
    sources: tuple[SourceProgress, ...]
    newest: float | None = None
    """The newest event time of the batch, in seconds since the epoch; None where nobody knows."""
    watermark: float | None = None
    """The event time below which everything was late in the batch."""
    oldest: float | None = None
    """The oldest event time of the batch."""
    late: Mapping[str, int] = field(default_factory=dict)
    """By kind of stateful operator, what was dropped behind the watermark: rows, or groups of an
    aggregation."""

    @classmethod
    def of(cls, report: str | Mapping[str, Any]) -> "Progress":
        """Reads a report in JSON, or one that was read already."""
        told: Mapping[str, Any] = json.loads(report) if isinstance(report, str) else report
        spent = told["durationMs"]
        total = spent.get("triggerExecution", 0)
        return cls(
            query=told["id"],
            run=told["runId"],
            name=told.get("name"),
            batch=told["batchId"],
            started=datetime.fromisoformat(told["timestamp"]).timestamp(),
            seconds=total / 1000,
            overhead=(total - spent.get("addBatch", 0)) / 1000,
            planning=spent.get("queryPlanning", 0) / 1000,
            ran="addBatch" in spent,
            rows=_rows(told),
            observed=told.get("observedMetrics") or {},
            sources=tuple(_source(source) for source in told.get("sources", ())),
            newest=_moment(told, "max"),
            watermark=_moment(told, "watermark"),
            oldest=_moment(told, "min"),
            late=_late(told.get("stateOperators", ())),
        )

    @property
    def ended(self) -> float:
        """Returns when the trigger ended, in seconds since the epoch."""
        return self.started + self.seconds

    @property
    def offsets(self) -> tuple[int, int]:
        """Returns the sums of the sources' offsets before and after the batch."""
        return (
            sum(whole_numbers(source.start) for source in self.sources),
            sum(whole_numbers(source.end) for source in self.sources),
        )


def _rows(told: Mapping[str, Any]) -> int:
    """The rows that were read; a client of Spark Connect is told them by source alone."""
    rows = told.get("numInputRows")
    return sum(each.get("numInputRows", 0) for each in told["sources"]) if rows is None else rows


def _late(operators: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    late: Counter[str] = Counter()
    for operator in operators:
        late[operator["operatorName"]] += operator.get("numRowsDroppedByWatermark", 0)
    return dict(late)


def _moment(told: Mapping[str, Any], which: str) -> float | None:
    moment = (told.get("eventTime") or {}).get(which)
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


def _source(told: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        start=offset(told.get("startOffset")),
        end=offset(told.get("endOffset")),
        latest=offset(told.get("latestOffset")),
        rows=told.get("numInputRows", 0),
    )


def offset(value: Any) -> Any:
    """Reads an offset that Spark gives as JSON inside of JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def whole_numbers(offset: Any) -> int:
    """Sums all whole numbers in an offset; for most sources the sum grows with the rows.

    >>> whole_numbers({"topic": {"0": 7, "1": 5}}), whole_numbers("[3, true]"), whole_numbers(None)
    (12, 3, 0)
    """
    if isinstance(offset, str):
        try:
            return whole_numbers(json.loads(offset))
        except ValueError:
            return 0
    if isinstance(offset, dict):
        return sum(whole_numbers(value) for value in offset.values())
    if isinstance(offset, list):
        return sum(whole_numbers(value) for value in offset)
    return offset if isinstance(offset, int) and not isinstance(offset, bool) else 0


def counts_rows(offset: Any) -> bool:
    """Says whether a step of this offset is a row, as with ``replay`` and Kafka's topics.

    >>> counts_rows({"start": 1.5, "offset": 9}), counts_rows({"topic": {"0": 7}})
    (True, True)
    >>> counts_rows({"logOffset": 3}), counts_rows(None)
    (False, False)
    """
    if not isinstance(offset, dict) or not offset:
        return False
    if offset.keys() == {"start", "offset"}:
        return True
    return all(
        isinstance(partitions, dict) and all(number.isdigit() for number in partitions)
        for partitions in offset.values()
    )


def weighted_quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> list[float]:
    """Returns the values below which these shares of the weight lie.

    >>> weighted_quantiles(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0, 1.0]), [0.5, 1.0])
    [2.0, 9.0]
    """
    found = np.quantile(values, shares, weights=weights, method="inverted_cdf")
    return [float(value) for value in np.atleast_1d(found)]
