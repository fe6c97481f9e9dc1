"""What a site needs after a crash of its driver: the plan of the batch that it died in.

Before a batch runs, what its gates are told is written down. A batch that Spark runs again is
decided by the same plan (law 8); one that Spark had committed, but whose ledger entry was lost, is
counted again (see ``recount``).
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from penstock.spark.gate.columns import Gate
from penstock.spark.gate.wire import Shipment
from penstock.spark.progress import Progress
from penstock.spark.query import SparkQuery
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.past_batches import PastBatch, PastBatches, those_that_shed
from penstock.spark.record.recount import (
    BatchPlan,
    GatePlan,
    last_committed,
    offsets_in,
    recount,
)
from penstock.spark.record.saved_state import SavedState
from penstock.spark.site_engine import SiteEngine

log = logging.getLogger("penstock")


class Recovery:
    """Writes plans down before they are used, and mends the ledger after a crash."""

    def __init__(
        self, engine: SiteEngine, saved: SavedState, ledger: Ledger, past: PastBatches
    ) -> None:
        self._engine, self._saved, self._ledger = engine, saved, ledger
        self._past = past
        self._before: dict[str, BatchPlan] = saved.recall_all("plan", BatchPlan)
        """By query: what was in force when the driver died; each is used once."""
        self._planned: dict[str, BatchPlan] = {}
        self._recounting: dict[str, Shipment] = {}
        self._again: dict[str, int] = {}
        """By query: the batch that was interrupted, and that runs again."""
        self._packed_strata: dict[str, tuple[int | None, bytes]] = {}
        """By gate: the number of the table that was packed last, and its strata."""

    @property
    def is_recounting(self) -> bool:
        """A query that begins now is one that counts a batch again."""
        return bool(self._recounting)

    def name_of(self, query: str) -> str | None:
        """What a query of this id was called in a driver before this one."""
        return next((name for name, plan in self._before.items() if plan.query == query), None)

    def recounting(self, gate: Gate) -> Shipment | None:
        """The plan of a batch that is just being counted again."""
        return self._recounting.get(gate.name)

    def begin(self, stream: SparkQuery, frames: Mapping[str, DataFrame]) -> None:
        """A query begins, for the first time or again.

        Its gates know again what they knew, and a batch that is missing from the ledger is counted.
        ``frames`` are the streams behind the gates, by the gates' names.
        """
        if stream.name in self._planned:  # it ran in this driver before
            self._before[stream.name] = self._planned.pop(stream.name)
        if stream.name in self._before and self._before[stream.name].query != stream.id:
            del self._before[stream.name]  # of another checkpoint
        before = self._before.get(stream.name)
        if before is not None and before.gates.keys() != set(range(len(stream.gates))):
            log.warning("%s had other gates before; its last batch cannot be repeated", stream.name)
            before = None
            del self._before[stream.name]
        if before is not None:
            stream.whole_rows = replace(before.whole_rows, span=stream.whole_rows.span)
        self._catch_up(stream, before, frames)
        for number, told in before.gates.items() if before else ():
            stream.gates[number].strata.recall(
                told.shipment.version, told.shipment.table, told.fingerprints
            )

    def tell_of_gap(self, stream: SparkQuery) -> None:
        """Says so if the batch before the first is missing, and nobody can count it again."""
        batch = stream.planned - 1
        if not self._engine.recounts() and self._ledger.lacks(stream.name, stream.id, batch):
            log.warning(
                "batch %d of %s is not in the ledger, and through Spark Connect it cannot be "
                "counted again",
                batch,
                stream.name,
            )

    def decided_before(self, stream: SparkQuery, gate: Gate) -> Shipment | None:
        """The plan of a batch that a crash interrupted, and that now runs again."""
        before = self._before.get(stream.name)
        if before is None:
            return None
        if before.batch != stream.planned:
            del self._before[stream.name]
            return None
        self._again[stream.name] = before.batch
        told = before.gates.get(stream.gates.index(gate))
        return None if told is None else told.shipment

    def plans_of(self, stream: SparkQuery, batch: int) -> Mapping[int, Shipment]:
        """What the gates were told in a batch that has just run, by their numbers."""
        for planned in (self._planned.get(stream.name), self._before.get(stream.name)):
            if planned is not None and (planned.query, planned.batch) == (stream.id, batch):
                return {number: told.shipment for number, told in planned.gates.items()}
        return {}

    def write_down(self, stream: SparkQuery, gate: Gate, shipment: Shipment) -> None:
        """Records what a gate is told in the batch that is about to run, before it runs."""
        planned = self._planned.get(stream.name)
        if planned is None or planned.batch != stream.planned:
            planned = self._planned[stream.name] = BatchPlan(
                stream.id, stream.planned, whole_rows=stream.whole_rows
            )
        planned.gates[stream.gates.index(gate)] = GatePlan(shipment, self._packed(gate, shipment))
        try:
            self._saved.remember("plan", planned, of=stream.name)
        except OSError as error:
            log.error(
                "the plan of %s is not on disk; a crash cannot repeat it: %s", stream.name, error
            )

    def _packed(self, gate: Gate, shipment: Shipment) -> bytes:
        """The strata of a shipment's table, packed again only when the table has changed."""
        number, packed = self._packed_strata.get(gate.name, (None, b""))
        if number != shipment.table.number:
            _, strata = gate.strata.listed(shipment.version)
            packed = GatePlan.pack({s: gate.strata.fingerprints[s] for s in strata})
            self._packed_strata[gate.name] = shipment.table.number, packed
        return packed

    def was_passed_over(self, stream: SparkQuery, progress: Progress) -> bool:
        """Whether a batch that runs again did not run, since its sink had all of it already.

        So do sinks of files and of Delta where the driver died between their commit and Spark's.
        """
        if self._again.get(stream.name) != progress.batch:
            return False
        del self._again[stream.name]
        return not any(progress.observed[gate.name]["arrived"] for gate in stream.gates)

    def counted_once(
        self, stream: SparkQuery, progress: Progress, frames: Mapping[str, DataFrame]
    ) -> Progress:
        """What Spark tells of a batch, with its gates' counts made anew.

        Of one that lost an executor, so that tuples may count twice, or that was passed over.
        """
        known = self._planned.get(stream.name), self._before.get(stream.name)
        planned = next((p for p in known if p is not None and p.batch == progress.batch), None)
        if planned is None:
            log.warning(
                "batch %d of %s cannot be counted anew, and may be wrong in the ledger",
                progress.batch,
                stream.name,
            )
            return progress
        found = self._recount(stream, planned, frames)
        return replace(progress, observed={**progress.observed, **found})

    def _catch_up(
        self, stream: SparkQuery, before: BatchPlan | None, frames: Mapping[str, DataFrame]
    ) -> None:
        """Counts the last batch again if the driver died before its ledger entry was written."""
        if not self._engine.recounts():
            return
        location = self._engine.checkpoint_of(stream.query)
        batch = last_committed(self._engine.files(location))
        if batch is None or not self._ledger.lacks(stream.name, stream.id, batch):
            return
        if before is None or before.batch != batch:
            log.warning("batch %d of %s is not in the ledger, nor is its plan", batch, stream.name)
            return
        observed = self._recount(stream, before, frames)
        if observed:
            self._note_past(stream, before, location, observed)
        for number, gate in enumerate(stream.gates):
            if gate.name in observed:
                self._ledger.note(stream.name, stream.id, batch, number, observed[gate.name])

    def _note_past(
        self, stream: SparkQuery, told: BatchPlan, location: str, observed: Mapping[str, Any]
    ) -> None:
        """Writes down what it takes to settle a batch that was counted again, of which no event
        times are known.
        """
        try:
            offsets = offsets_in(self._engine.files(location), told.batch)
            counted = {i: observed[gate.name] for i, gate in enumerate(stream.gates)}
            plans = {number: its.shipment for number, its in told.gates.items()}
            past = PastBatch(
                told.batch, time.time(), offsets, plans=those_that_shed(plans, counted)
            )
            self._past.note(stream.id, past)
        except Exception:  # the ledger must have it all the same
            log.exception("batch %d of %s cannot be settled later", told.batch, stream.name)

    def _recount(
        self, stream: SparkQuery, told: BatchPlan, frames: Mapping[str, DataFrame]
    ) -> dict[str, Any]:
        """Observed metrics by gate of a batch that is counted again; none where that fails."""
        numbers = {gate.name: number for number, gate in enumerate(stream.gates)}
        self._recounting = {name: told.gates[i].shipment for name, i in numbers.items()}
        try:
            gated = [frames[name] for name in numbers]
            location = self._engine.checkpoint_of(stream.query)
            found = recount(self._engine, gated, stream.query, location, told.batch)
            return {name: found[name].asDict(recursive=True) for name in numbers}
        except Exception:
            log.exception("batch %d of %s cannot be counted again", told.batch, stream.name)
            return {}
        finally:
            self._recounting = {}
