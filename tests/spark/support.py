"""What the tests of gate and site share: small streams, a gate with plans of the test's choosing.

``draw`` is the gate's decision written down a second time, in plain Python, so that what Spark
does is compared with something else than Spark.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Count, Plan, Strata, Stratum, Tally
from penstock.spark.class_archive import reading
from penstock.spark.connect_engine import ConnectEngine
from penstock.spark.engines import engine_of
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys, salt_of
from penstock.spark.progress import Progress

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")

QUICK = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m {reading()}"
"""A JVM that lives for a test does not pay for compiling its code well, nor for many GC threads.
With one compiler alone it keeps little space for code, and properties with many queries fill that.
It takes Spark's classes out of the archive of this environment.
"""
_names = count()
_WORD = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def wait_until(true: Callable[[], object], seconds: float = 120, what: str = "it") -> None:
    """Asks again and again; less often where asking is work itself, as a query of Spark is."""
    began = time.monotonic()
    deadline = began + seconds
    while not true():
        asked = time.monotonic()
        assert asked < deadline, f"waited {seconds} s for {what}"
        time.sleep(min(max(0.02, 3 * (asked - began)), 1.0))
        began = time.monotonic()


def assert_gone(mark: str) -> None:
    """No process is left that began with this variable, wherever it now belongs. A worker needs a
    moment to notice that its JVM has ended.
    """

    wait_until(lambda: not alive(mark), 30, f"the processes with {mark} to end")


def alive(mark: str) -> int:
    """How many processes there are that began with this variable."""
    return sum(mark.encode() in began_with(process) for process in Path("/proc").iterdir())


def began_with(process: Path) -> list[bytes]:
    """The variables of the environment with which a process began; none where it is gone."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:  # not a process, or gone meanwhile
        return []


def draw(number: int, source: str = "s") -> int:
    """Where in [0, 2⁶³) the identity ``number``, one bigint column of a source, falls."""
    return xxhash64(number, source) >> 1


def xxhash64(number: int, source: str = "s") -> int:
    """XXH64 of the gate's salt and a bigint, as Spark has it."""
    return _long(number, _int(salt_of(source), 42))


def is_admitted(number: int, rate: float, source: str = "s") -> bool:
    return rate >= 1.0 or draw(number, source) < rate * 2.0**63


def _int(value: int, seed: int) -> int:
    h = (seed + _P5 + 4) & _WORD
    h ^= ((value & 0xFFFFFFFF) * _P1) & _WORD
    return _mixed(_rotated(h, 23) * _P2 + _P3)


def _long(value: int, seed: int) -> int:
    h = (seed + _P5 + 8) & _WORD
    h ^= (_rotated((value * _P2) & _WORD, 31) * _P1) & _WORD
    return _mixed(_rotated(h, 27) * _P1 + _P4)


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _WORD


def _mixed(h: int) -> int:
    h &= _WORD
    h = ((h ^ (h >> 33)) * _P2) & _WORD
    h = ((h ^ (h >> 29)) * _P3) & _WORD
    return h ^ (h >> 32)


def write_batches(folder: Path, batches: Iterable[Mapping[str, Sequence[object]]]) -> str:
    """One file a batch, in order: the column ``b`` says which batch, ``n`` numbers all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = 0
    for number, columns in enumerate(batches):
        size = len(next(iter(columns.values())))
        table = {"b": [number] * size, "n": range(rows, rows + size), **columns}
        path = folder / f"{number:03d}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files by age
        rows += size
    return str(folder)


def file_stream(spark: SparkSession, folder: str) -> DataFrame:
    """A stream whose micro-batches are the files of a folder, one each."""
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def plan(
    version: int, rates: Mapping[Stratum, float], default: float = 1.0, sic: float = 0.5
) -> Plan:
    return Plan(
        version=version,
        strata=Strata(rates),
        rates=np.array(list(rates.values()), dtype=np.float64),
        sic=np.full(len(rates), sic),
        default_rate=default,
        default_sic=sic,
    )


class Rig:
    """A gate without a site: tick number n, from 0, gets the plan ``plans(n)``.

    A plan, and whether strata are to be counted even if it stands open.
    """

    def __init__(
        self,
        spark: SparkSession,
        stream: DataFrame,
        plans: Callable[[int], tuple[Plan, bool]],
        *,
        query: str | Column = "q",
        source: str | Column = "s",
        strata: Sequence[str] = (),
        most_strata: int = 1000,
    ) -> None:
        columns = tuple(sf.col(name) for name in strata)
        engine = engine_of(spark)
        engine.install()
        engine.open()
        keys = Keys(query, source, columns, (sf.col("n"),))
        self.gate = Gate(engine.gate_name(next(_names)), keys, most_strata)
        self.spark = spark
        engine.answer_for(self.gate.name, self)
        self._connect = engine if isinstance(engine, ConnectEngine) else None
        if self._connect:  # it has to listen to be asked
            self._connect.listen(self)
        self.ticks = 0
        self.counts: dict[int, dict[Stratum, Count]] = {}
        self.totals: dict[int, tuple[int, int]] = {}
        self.spans: dict[int, float | None] = {}
        self.tallied = 0
        """Batches that the gate counted in columns, too."""
        self._plans = plans
        self.query: StreamingQuery | None = None
        self._found: StreamingQuery | None = None
        self.frame = self.gate.admit(stream)

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        """The JVM asks, once a batch."""
        assert gate == self.gate.name
        assert batch >= 0, "asked outside of a micro-batch"
        assert query
        if self._connect:
            self._found = self._connect.find(query)
        self._learn()
        chosen, counting = self._plans(self.ticks)
        self.ticks += 1
        return self.gate.wire.encode(self.gate.codec.encode(chosen, counting=counting), run)

    def started(self, query: str) -> None:
        """Nobody listens."""

    def progressed(self) -> None:
        """A client of Spark Connect reads what is observed from its engine: in Spark's own reports
        its names are missing.
        """
        assert self._connect is not None
        told = self._connect.last_progress(self._found) if self._found else None
        if told is not None:
            self._count(told[0], Progress.of(told[1]()).observed[self.gate.name])

    def ended(self, run: str) -> None:
        """Nobody listens."""

    def _learn(self) -> None:
        if self._connect:
            if threading.current_thread() is threading.main_thread():
                self._connect.catch_up()
            return
        for progress in self.query.recentProgress if self.query else ():
            observed = progress.observedMetrics.get(self.gate.name)
            if observed is not None and progress.batchId not in self.counts:
                self._count(progress.batchId, observed.asDict(recursive=True))

    def _count(self, batch: int, metrics: Mapping[str, Any]) -> None:
        report = self.gate.codec.decode(metrics)
        counts = {s: count for s, count in report.counts.items() if count.arrived}
        self.counts[batch] = counts
        self.tallied += isinstance(report.counts, Tally)
        self.totals[batch] = (report.arrived, report.admitted)
        self.spans[batch] = report.span

    def run(self, checkpoint: Path | None = None, frame: DataFrame | None = None) -> list[Row]:
        """All that there is, and the rows that came through."""
        name = f"rig_{next(_names)}"
        writer = (frame or self.frame).writeStream.format("memory").queryName(name)
        if checkpoint is not None:
            writer = writer.option("checkpointLocation", str(checkpoint))
        self.query = writer.trigger(availableNow=True).start()
        assert self.query.awaitTermination(90)
        self._learn()
        return self.spark.table(name).collect()

    def run_for(self, batches: int, frame: DataFrame | None = None) -> None:
        """Of a stream that never ends, so many batches or more."""
        self.query = query = (frame or self.frame).writeStream.format("noop").start()
        wait_until(lambda: query.exception() or len(query.recentProgress) >= batches)
        query.stop()
        self._learn()


def tally(
    batch: Mapping[str, Sequence[Any]],
    stratum: Callable[..., Stratum],
    first: int,
    rate: Callable[[Stratum], float],
    source: str = "s",
) -> dict[Stratum, Count]:
    """What a gate should count of a batch whose rows are numbered from ``first``."""
    arrived: Counter[Stratum] = Counter()
    admitted: Counter[Stratum] = Counter()
    for number, row in enumerate(zip(*batch.values(), strict=True), start=first):
        mine = stratum(*row)
        arrived[mine] += 1
        admitted[mine] += is_admitted(number, rate(mine), source)
    return {s: Count(arrived[s], admitted[s]) for s in arrived}
