"""Reads a job file and checks, without Spark, that its parts fit together.

A mistake gives one message with file, line and key that says what to do. What only Spark can know
(columns, types, formats) is checked by ``penstock.jobs.check``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock import policy as policies
from penstock.core.settings import check_timing
from penstock.documents import Document, read, validate
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.jobs.model import EVERY_SOURCE, JobFile, QueryEntry
from penstock.sql import Rewritten, Source, SqlError, rewrite


@dataclass(frozen=True)
class LoadedJob:
    """Holds a job file, its queries rewritten, and the document that messages point into."""

    job: JobFile
    document: Document
    queries: Mapping[str, Rewritten]

    @property
    def directory(self) -> Path:
        """The directory of the job file; relative paths of sources start here."""
        return Path(self.document.name).parent


def load(path: Path, environment: Mapping[str, str] | None = None) -> LoadedJob:
    """Reads a job file and rewrites its queries; raises the first mistake with its place."""
    document = read(path, environment)
    if not isinstance(document.data, dict):
        raise document.error((), "expected keys such as 'sources' and 'queries'")
    return prepared(validate(document, JobFile), document)


def prepared(job: JobFile, document: Document) -> LoadedJob:
    """Rewrites the queries of a job whose parts were read from a document, or refuses it."""
    _check(job, document)
    return LoadedJob(job, document, {name: _rewritten(job, name, document) for name in job.queries})


def view(query: str, source: str) -> str:
    """Names the temporary view through which a query reads a source behind its gate."""
    return f"{query}:{source}"


def _check(job: JobFile, document: Document) -> None:
    try:
        policies.get(job.policy)
    except PenstockError as error:
        raise document.error(("policy",), str(error)) from None
    if wrong := check_timing(job.interval, job.latency, job.stw):
        raise document.error((wrong[0],), wrong[1])
    if job.directory is not None and "://" in job.directory:
        raise document.error(("directory",), "must be on the driver's disk, such as 'state'")
    if job.checkpoint is not None and "://" in job.checkpoint and job.directory is None:
        raise document.error(
            ("checkpoint",),
            "needs 'directory' beside it, such as directory: state, since the ledger is written "
            "to the driver's disk",
        )
    for name, query in job.queries.items():
        if query.interval and (wrong := check_timing(query.interval, job.latency, None)):
            raise document.error(("queries", name, "interval"), f"{wrong[0]}: {wrong[1]}")
        if query.ceiling is not None and query.ceiling < query.floor:
            raise document.error(("queries", name, "ceiling"), "lies below the floor")
        for source in query.strata:
            if source not in (EVERY_SOURCE, *job.sources):
                message = f"unknown source {source!r}; {hint(source, job.sources)}"
                raise document.error(("queries", name, "strata", source), message)


def _rewritten(job: JobFile, name: str, document: Document) -> Rewritten:
    query, path = job.queries[name], ("queries", name, "sql")
    tables = {
        source: Source(view(name, source), given.event_time, not given.static)
        for source, given in job.sources.items()
    }
    try:
        found = rewrite(query.sql, tables, confidence=query.bounds, one_to_one=query.one_to_one)
        _fits(query, found)
    except SqlError as error:
        raise document.error(path, str(error), error.line) from None
    return found


def _fits(query: QueryEntry, found: Rewritten) -> None:
    """Refuses what Spark would refuse only once the query runs."""
    if (found.order or found.limit is not None) and query.mode != "complete":
        raise SqlError("ORDER BY and LIMIT: a stream has a first row only with mode: complete")
    if found.aggregated and query.mode == "append" and not found.windowed:
        raise SqlError(
            "an aggregate without a window never ends: GROUP BY window(time, '1 minute'), "
            "or say mode: complete"
        )
    if not found.aggregated and query.mode == "complete":
        raise SqlError("mode: complete keeps whole results; this query has no aggregate")
