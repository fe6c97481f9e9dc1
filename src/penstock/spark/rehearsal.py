"""Runs a query's own plan for a moment before its stream begins, so that a cold JVM is warm.

The first micro-batch of a JVM takes some ten times as long as any later one: classes are loaded,
code is generated and compiled. Whatever arrives meanwhile is waiting, and late. A stream that has
not begun has nothing waiting. So when a query is about to begin anew, and nothing else runs yet,
the site first starts the same plan from the same sources into nowhere, with a checkpoint that is
thrown away, lets it do one batch of a few tuples, and ends it. That checkpoint is beside the
query's own, since executors write state into it, and may not see the driver's disk. A source that
starts at its latest offsets is asked for them only then, so that nothing is missed.

A query that goes on from a checkpoint is not rehearsed, since what waits for it waits already; nor
one whose sources may not be read twice, or are read from the start. ``Site(rehearse=False)`` leaves
it out. A listener of the program's own sees the rehearsal as a query whose name begins with
``penstock-rehearsal-``.
"""

import logging
import time
from uuid import uuid4

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Plan
from penstock.errors import PenstockError
from penstock.spark.site_engine import SiteEngine

log = logging.getLogger("penstock")
NAME = "penstock-rehearsal-"
LONGEST_SECONDS = 15.0
"""A rehearsal that is not over by then is ended; the JVM is warmer all the same."""
LONGEST_WAIT_SECONDS = 2.0
"""Where a source has nothing for so long, there is nothing to rehearse with."""
PLAN = Plan(default_rate=0.05)
"""Of what arrives a part is enough, however dear a tuple is."""
POLL_SECONDS = 0.05


_warm: set[str] = set()
"""Spark applications in which a query behind a gate has begun already."""


class Rehearsal:
    """Rehearses the first query of a Spark application, unless it is not wanted."""

    def __init__(self, engine: SiteEngine, wanted: bool = True) -> None:
        self._engine, self._wanted = engine, wanted

    def is_one(self, query: StreamingQuery) -> bool:
        """Whether a query is itself a rehearsal."""
        return str(query.name or "").startswith(NAME)

    def run(self, query: StreamingQuery) -> None:
        """Rehearses a query that is about to begin, if that is of use; a failure is not told."""
        application = self._engine.application()
        if application in _warm:
            return
        _warm.add(application)
        if not self._wanted or not self._of_use(query):
            return
        began = time.monotonic()
        try:
            location = f"{self._engine.checkpoint_of(query)}.rehearsal"
            self._rehearse(query, location, began)
        except Exception as error:  # the query itself will say what is wrong with it
            log.debug("%s could not be rehearsed: %s", query.name or query.id, error)
        took = time.monotonic() - began
        log.info("%s was rehearsed for %.1f s, since Spark is cold", query.name or query.id, took)

    def _rehearse(self, query: StreamingQuery, location: str, began: float) -> None:
        checkpoint = self._engine.files(location)
        checkpoint.delete()  # of an earlier attempt
        try:
            rehearsed = self._engine.start_like(query, f"{NAME}{uuid4()}", location)
            try:
                self._wait(rehearsed, began)
            finally:
                rehearsed.stop()
        finally:
            checkpoint.delete()

    def _of_use(self, query: StreamingQuery) -> bool:
        try:
            checkpoint = self._engine.files(self._engine.checkpoint_of(query))
            return not checkpoint.names("offsets") and self._engine.begins_at_latest(query)
        except PenstockError as error:
            log.debug("%s is not rehearsed: %s", query.name or query.id, error)
            return False

    def _wait(self, rehearsed: StreamingQuery, began: float) -> None:
        """Waits for the end of the first batch that had tuples."""
        busy = False
        while rehearsed.isActive:
            passed = time.monotonic() - began
            told = rehearsed.lastProgress
            if told is not None and told["numInputRows"] > 0:
                return
            busy = busy or bool(rehearsed.status["isDataAvailable"])
            if passed > LONGEST_SECONDS or (passed > LONGEST_WAIT_SECONDS and not busy):
                return
            time.sleep(POLL_SECONDS)
