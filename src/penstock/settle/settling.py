"""Settles the windows of one query: worst first, within a budget of time, group by group.

A settled window is what the query answers over *all* tuples of it that the query has read: those
that were admitted, those that were shed, and those that came too late. They are read again and
nothing is added up with what is in the results, since few aggregates could be: so it holds for
medians as for sums. The rows come out of the same rewritten query, over tuples that all weigh 1:
their SIC is 1, and their intervals have no width.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from math import inf
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.jobs.inputs import behind, located, read
from penstock.jobs.load import LoadedJob, view
from penstock.jobs.results import answer
from penstock.settle.past_stream import Budget, PastStream, moment
from penstock.settle.settled_rows import FOLDER, START, WholeFolders
from penstock.settle.survey import Survey
from penstock.settle.touched import Reach, Touched
from penstock.settle.window_shape import MICROS, window_shape
from penstock.spark.gate.columns import SIC, WEIGHT

log = logging.getLogger("penstock")
TUPLES_AT_ONCE = 1_000_000
"""Windows are settled together while no more tuples than this have to be read for them."""


class Settling:
    """Settles the windows of one query."""

    def __init__(
        self,
        stream: PastStream,
        schema: StructType,
        budget: Budget,
        *,
        into: str | None = None,
        since: float = -inf,
        until: float = inf,
        tuples_at_once: int | None = None,
    ) -> None:
        self._stream, self._schema, self._budget = stream, schema, budget
        self._since, self._until = since, until
        self._tuples_at_once = tuples_at_once or TUPLES_AT_ONCE
        self._shape = window_shape(stream.loaded, stream.query)
        self._rows = WholeFolders(stream.engine, into or usual_place(stream.loaded, stream.query))
        self._survey = Survey.resumed(stream.past, self._shape)

    def run(self) -> dict[str, Any]:
        """Settles what there is time for, and reports."""
        surveyed = self._look()
        touched = Touched.of(self._survey)
        sic = self._say_less_than_1()
        wanted = touched.windows(self._since, self._until, sic)
        before = self._rows.all_of("windows")
        open_ = {s for s in wanted if s + self._shape.length > self._stream.past.over} - before
        left = wanted - before - open_
        settled: set[int] = set()
        if surveyed:
            settled = self._settle(touched, left, sic)
        blocked = self._blocked(touched, left - settled)
        return {
            "query": self._stream.query,
            "into": self._rows.place,
            "shed": sum(self._stream.past.shed.values()),
            "windows": {
                "touched": len(wanted),
                "settled": len(settled | (before & wanted)),
                "settled_now": len(settled),
                "left": len(left - settled - blocked) if surveyed else None,
                "not_over": len(open_),
                "lost": len(blocked),
            },
            "lost": self._stream.told_lost(self._blocking(touched, blocked)),
            "out_of_time": not surveyed or bool(left - settled - blocked),
            "seconds": round(self._budget.spent, 3),
        }

    def _look(self) -> bool:
        """Surveys what was shed; False where there was no time for all of it."""
        stream = self._stream
        for batches in stream.those_that_shed(set(self._survey.found)):
            if self._budget.is_over:
                return False
            wrong = self._survey.look(
                stream.engine, stream.source, stream.keys, stream.past, stream.again, batches
            )
            for batch, why in wrong.items():
                stream.lose(batch, why)
        return True

    def _settle(self, touched: Touched, left: set[int], sic: Mapping[int, float]) -> set[int]:
        """Settles windows by the lowest SIC, or, where the results do not tell it, by what was
        shed.
        """
        reach, settled = Reach(self._stream.past, touched), set[int]()
        worth = {start: sic[start] if start in sic else touched.kept(start) for start in left}
        order = sorted(left, key=lambda start: (worth[start], start))
        while True:
            gaps = self._stream.gaps()
            order = [start for start in order if not touched.blocked(start, gaps)]
            if not order or self._budget.is_over:
                return settled
            windows, batches = self._group(reach, order)
            if self._settle_group(windows, batches):
                settled |= windows
                order = [start for start in order if start not in windows]
            else:
                self._stream.lose_what_is_gone(batches)

    def _say_less_than_1(self) -> dict[int, float]:
        """Returns the lowest SIC that a row of a window says, of windows that do not say 1.

        Some of them lost nothing and cannot know that: the next windows after those that did.
        """
        sink = self._stream.loaded.job.queries[self._stream.query].sink
        if sink.path is None or sink.format not in ("parquet", "orc", "delta"):
            return {}
        path = located(sink.path, self._stream.loaded.directory)
        try:
            lowest = (
                self._stream.spark.read.format(sink.format)
                .load(path)
                .where(sf.col(SIC) < 1)
                .groupBy(self._shape.start().alias(START))
                .agg(sf.min(SIC))
            ).collect()
        except PySparkException as error:  # nothing is there yet, or it has other columns
            log.info("%s does not tell which windows are worst: %s", path, error)
            return {}
        return {start: sic for start, sic in lowest if start is not None}

    def _group(self, reach: Reach, order: list[int]) -> tuple[set[int], set[int]]:
        """The worst window, and the next worst for which little more has to be read."""
        arrived = self._stream.past.arrived
        windows, batches = {order[0]}, reach.of(order[0])
        for start in order[1:]:
            more = batches | reach.of(start)
            if sum(arrived[batch] for batch in more) > self._tuples_at_once:
                break
            windows.add(start)
            batches = more
        return windows, batches

    def _settle_group(self, windows: set[int], batches: set[int]) -> bool:
        """Settles some windows; False where the source has not the tuples any more."""
        stream = self._stream
        past = stream.past.past
        if any(stream.again.gone(past[batch].offsets[0]) for batch in batches):
            return False
        counted = Observation(f"penstock_settle_{min(windows)}")
        tuples = stream.whole(batches).observe(counted, sf.count(sf.lit(1)).alias("n"))
        self._rows.stage(self._answered(tuples, windows))
        arrived = sum(stream.past.arrived[batch] for batch in batches)
        if counted.get["n"] != arrived:
            return False
        self._rows.commit(
            f"windows-{min(windows)}",
            {
                "query": stream.query,
                "shape": asdict(self._shape),
                "windows": sorted(windows),
                "batches": sorted(batches),
                "tuples": arrived,
                "at": moment(time.time() * MICROS),
            },
        )
        return True

    def _answered(self, tuples: DataFrame, windows: set[int]) -> DataFrame:
        """Runs the query over tuples that all weigh 1."""
        stream = self._stream
        stamped = tuples.select("*", sf.lit(1.0).alias(WEIGHT), sf.lit(1.0).alias(SIC))
        inside = behind(stamped, stream.source).where(self._inside(windows))
        inside.createOrReplaceTempView(f"`{view(stream.query, stream.name)}`")
        rewritten = stream.loaded.queries[stream.query]
        for name in rewritten.sources:
            given = stream.loaded.job.sources[name]
            if given.static:
                table = behind(read(stream.spark, given, stream.loaded.directory), given)
                table.createOrReplaceTempView(f"`{view(stream.query, name)}`")
        rows = answer(stream.spark, rewritten, self._schema)
        return rows.where(self._shape.start().isin(sorted(windows)))

    def _inside(self, windows: set[int]) -> Column:
        """Whether a tuple falls into one of the windows."""
        moment = sf.unix_micros(sf.col(f"`{self._shape.time}`"))
        spans: list[list[int]] = []
        for start in sorted(windows):
            if spans and start <= spans[-1][1]:
                spans[-1][1] = start + self._shape.length
            else:
                spans.append([start, start + self._shape.length])
        return reduce(Column.__or__, [(moment >= a) & (moment < b) for a, b in spans])

    def _blocked(self, touched: Touched, left: set[int]) -> set[int]:
        gaps = self._stream.gaps()
        return {start for start in left if touched.blocked(start, gaps)}

    def _blocking(self, touched: Touched, blocked: set[int]) -> set[int]:
        """Answers batches that shed nothing, and without which windows cannot be settled."""
        return {
            batch
            for batch, its in self._stream.lost.items()
            if not its.shed and any(touched.blocked(s, [(its.since, its.until)]) for s in blocked)
        }


def usual_place(loaded: LoadedJob, query: str) -> str:
    """Answers where settled rows of a query go unless told."""
    path = loaded.job.queries[query].sink.path
    if path is None:
        raise PenstockError(
            f"{query}: its results are in no folder beside which settled ones could be: say "
            "--into FOLDER"
        )
    return f"{located(path, loaded.directory)}/{FOLDER}"
