"""What a site needs after a crash of its driver: the plan of the batch that it died in.

Before a batch runs, what its gates are told is written down. A batch that Spark runs again is
decided by the same plan (law 8); one that Spark had committed, but whose ledger entry was lost, is
counted again (see ``recount``).
"""

import logging
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark import arguments
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.wire import Shipment
from penstock.spark.query import SparkJob
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.recount import Checkpoint, Kept, Planned, recount
from penstock.spark.record.saved_state import Memory

log = logging.getLogger("penstock")


class Recovery:
    def __init__(self, spark: SparkSession, memory: Memory, ledger: Ledger) -> None:
        self._spark, self._memory, self._ledger = spark, memory, ledger
        self._planned: dict[str, Planned] = memory.recall("plans", dict) or {}
        self._before = dict(self._planned)
        """What jobs had planned when the driver died; each is used once."""
        self._recounting: dict[str, Shipment] = {}

    def recounting(self, gate: Gate) -> Shipment | None:
        """The plan of a batch that is just being counted again."""
        return self._recounting.get(gate.name)

    def begin(self, job: SparkJob, query: str) -> None:
        """A query's first batch since it was started: its gates know what they knew."""
        before = self._before.get(job.name)
        if before is not None and before.query != query:
            del self._before[job.name]
        elif before is not None:
            for number, kept in before.gates.items():
                job.gates[number].recall(kept.shipment, kept.fingerprints)

    def decided_before(self, job: SparkJob, gate: Gate) -> Shipment | None:
        """The plan of a batch that a crash interrupted, and that now runs again."""
        before = self._before.get(job.name)
        if before is None:
            return None
        if before.batch != job.planned:
            del self._before[job.name]
            return None
        kept = before.gates.get(job.gates.index(gate))
        return None if kept is None else kept.shipment

    def write_down(self, job: SparkJob, gate: Gate, shipment: Shipment) -> None:
        """What a gate is told in the batch that is about to run."""
        if self._memory.directory is None or job.query is None:
            return
        planned = self._planned.get(job.name)
        if planned is None or planned.batch != job.planned:
            planned = Planned(str(job.query.id), job.planned)
            self._planned[job.name] = planned
        planned.gates[job.gates.index(gate)] = Kept(shipment, gate.shipped(shipment.version))
        self._memory.remember("plans", self._planned)

    def catch_up(
        self,
        job: SparkJob,
        writer: DataStreamWriter,
        checkpoint: str,
        streams: Mapping[str, DataFrame],
    ) -> None:
        """Counts the last batch again if the driver died before its ledger entry was written.

        ``streams`` are those behind the gates, by the gates' names.
        """
        stored, frame = Checkpoint(self._spark, checkpoint), arguments.frame_of(writer)
        query, batch = stored.query(), stored.last_committed()
        if query is None or batch is None or not self._ledger.lacks(job.name, query, batch):
            return
        before = self._before.get(job.name)
        if before is None or (before.query, before.batch) != (query, batch):
            log.warning("batch %d of %s is not in the ledger, nor is its plan", batch, job.name)
            return
        names = {gate.name: number for number, gate in enumerate(job.gates)}
        self._recounting = {name: before.gates[i].shipment for name, i in names.items()}
        try:
            gated = [streams[name] for name in names]
            observed = recount(self._spark, gated, frame, checkpoint, batch)
            for name, number in names.items():
                self._ledger.note(job.name, query, batch, number, observed[name])
        except Exception:
            log.exception("batch %d of %s cannot be counted again", batch, job.name)
        finally:
            self._recounting = {}
