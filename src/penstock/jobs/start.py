"""Starts a job file on a site: its sources, gates, queries and sinks."""

import math
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.core.settings import QueryTerms
from penstock.jobs.inputs import (
    arrival,
    behind,
    identity,
    located,
    parsed,
    read,
    site_directory,
    strata,
    view_of_rows,
)
from penstock.jobs.load import LoadedJob, view
from penstock.jobs.results import answer
from penstock.spark.query import RESULT_METRICS
from penstock.spark.site import Site

LONGEST_WAIT_FOR_SOURCES_SECONDS = 15.0
"""How long the start of one query may delay the start of the next."""
POLL_SECONDS = 0.05


def open_site(spark: SparkSession, loaded: LoadedJob, metrics: int | str | None = None) -> Site:
    """Opens the site that a job file describes; nothing runs yet.

    ``metrics`` is where Prometheus is to find its figures, if anywhere.
    """
    job = loaded.job
    terms = {
        name: QueryTerms(
            query.weight, query.floor, math.inf if query.ceiling is None else query.ceiling
        )
        for name, query in job.queries.items()
    }
    return Site(
        spark,
        interval=job.interval,
        latency=job.latency,
        stw=job.stw,
        policy=job.policy,
        headroom=job.headroom,
        terms=terms,
        directory=site_directory(loaded),
        watch=job.watch,
        metrics=metrics,
        settle_within=job.settle_within,
    )


def start(
    spark: SparkSession,
    loaded: LoadedJob,
    site: Site,
    schemas: Mapping[str, StructType],
    directory: Path,
) -> dict[str, StreamingQuery]:
    """Starts all queries.

    ``schemas`` come from ``check``. ``directory`` takes the checkpoints of a job file that names
    no place for them; they may be deleted with it.
    """
    kept = loaded.job.checkpoint
    checkpoints = str(directory) if kept is None else located(kept, loaded.directory)
    queries = {}
    for name in loaded.job.queries:
        query = _started(spark, loaded, site, name, schemas[name], f"{checkpoints}/{name}")
        queries[name] = query
        _settle(query)
    return queries


def _started(
    spark: SparkSession,
    loaded: LoadedJob,
    site: Site,
    name: str,
    plain: StructType,
    checkpoint: str,
) -> StreamingQuery:
    query, rewritten = loaded.job.queries[name], loaded.queries[name]
    for source in rewritten.sources:
        _gated(spark, loaded, site, name, source)
    frame = answer(spark, rewritten, plain, observed=RESULT_METRICS)
    sink = query.sink
    writer = frame.writeStream.format(sink.format).outputMode(query.mode).options(**sink.options)
    if sink.path is not None:
        writer = writer.option("path", located(sink.path, loaded.directory))
    return site.start(writer, name=name, interval=query.interval, checkpoint=checkpoint)


def _settle(query: StreamingQuery) -> None:
    """Waits until a Spark query has opened its sources, or for some seconds.

    Python sources start processes of their own, and on a busy machine these give up where many
    start at the same time.
    """
    end = time.monotonic() + LONGEST_WAIT_FOR_SOURCES_SECONDS
    while query.isActive and time.monotonic() < end:
        doing = query.status["message"]
        if not doing.startswith(("Initializing", "Getting offsets")):
            return
        time.sleep(POLL_SECONDS)


def _gated(spark: SparkSession, loaded: LoadedJob, site: Site, query: str, name: str) -> None:
    """Makes the view through which a query reads a source; each query has gates of its own."""
    source, windows = loaded.job.sources[name], loaded.job.queries[query].concept
    stream = read(spark, source, loaded.directory)
    if not source.static:
        stream = site.gate(
            stream,
            query=query,
            source=name,
            strata=strata(stream, name, loaded.job.queries[query]),
            id=identity(stream, source),
            arrival=arrival(stream, source),
            concept=None if windows is None else windows.concept(),
            comes_and_goes=source.comes_and_goes,
        )
    counted = loaded.queries[query].counted
    if counted is not None and not source.static:
        seen = loaded.queries[query].counted_view(view(query, name))
        view_of_rows(parsed(stream, source), source, counted, seen)
    else:
        behind(stream, source).createOrReplaceTempView(f"`{view(query, name)}`")
