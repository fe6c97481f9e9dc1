"""What sites and queries were like over time, in a SQLite file that is bounded.

Nothing depends on it: what cannot be written is said in the log, and lost. A file that is damaged
is set aside under another name, and a new one begun.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from penstock.errors import PenstockError
from penstock.federation.messages import Heartbeat
from penstock.federation.oracle_messages import (
    Event,
    FairnessMoment,
    HistoryAnswer,
    QueriesAnswer,
    QueryMoment,
    SiteMoment,
)

USUAL_RESOLUTION_SECONDS = 10.0
"""Of several heartbeats within it, one is kept."""
USUAL_MOST_ROWS = 500_000
"""Of each table; with 20 sites and 200 queries that is six hours of queries."""
USUAL_LONGEST_AGE_SECONDS = 7 * 86_400.0
ROWS_BETWEEN_CLEANINGS = 1_000
MOST_ROWS_ANSWERED = 10_000
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA)
SCHEMA = """
CREATE TABLE IF NOT EXISTS site_moments (
    at REAL, site TEXT, throughput REAL, latency_ms REAL, dropped REAL, average_sic REAL,
    fragments_running INTEGER, fragments_connected INTEGER, capacity REAL, utilisation REAL);
CREATE TABLE IF NOT EXISTS query_moments (
    at REAL, query TEXT, site TEXT, sic REAL, sic_now REAL, rows REAL);
CREATE TABLE IF NOT EXISTS fairness (at REAL, jain REAL, mean_sic REAL, queries INTEGER);
CREATE TABLE IF NOT EXISTS events (at REAL, kind TEXT, site TEXT, query TEXT, text TEXT);
CREATE INDEX IF NOT EXISTS site_moments_by_time ON site_moments (at);
CREATE INDEX IF NOT EXISTS query_moments_by_time ON query_moments (at);
CREATE INDEX IF NOT EXISTS query_moments_by_query ON query_moments (query, at);
CREATE INDEX IF NOT EXISTS events_by_time ON events (at);
CREATE INDEX IF NOT EXISTS fairness_by_time ON fairness (at);
"""
TABLES = ("site_moments", "query_moments", "events", "fairness")

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class HistoryBounds(NamedTuple):
    """Says how much is kept."""

    most_rows: int = USUAL_MOST_ROWS
    longest_age_seconds: float = USUAL_LONGEST_AGE_SECONDS
    resolution_seconds: float = USUAL_RESOLUTION_SECONDS


class History:
    """Writes and reads the file; may be used by several threads at a time."""

    def __init__(self, path: Path, bounds: HistoryBounds | None = None) -> None:
        self._path, self._bounds = path, bounds or HistoryBounds()
        self._lock = Lock()
        self._last: dict[str, float] = {}
        """When a heartbeat of each site was last kept."""
        self._fairness_noted: float | None = None
        self._since_cleaning = 0
        self._connection = self._open()

    def note(self, beat: Heartbeat, events: Iterable[Event], now: float) -> None:
        """Writes down events, and a heartbeat if the last that was kept is old enough."""
        told = [tuple(event.model_dump().values()) for event in events]
        last = self._last.get(beat.site)
        if last is not None and 0 <= now - last < self._bounds.resolution_seconds:
            self._write({"events": told}, now)
            return
        self._last[beat.site] = now
        moments = {"site_moments": [_site_row(beat, now)], "query_moments": _query_rows(beat, now)}
        self._write({**moments, "events": told}, now)

    def note_fairness(self, answer: QueriesAnswer, now: float) -> None:
        """Writes down how fairly queries fare, if the last that was kept is old enough."""
        if answer.jain is None or answer.mean_sic is None or not self.wants_fairness(now):
            return
        self._fairness_noted = now
        fresh = sum(1 for query in answer.queries if not query.silent)
        self._write({"fairness": [(now, answer.jain, answer.mean_sic, fresh)]}, now)

    def wants_fairness(self, now: float) -> bool:
        """Answers whether the last that was kept is old enough for another."""
        last = self._fairness_noted
        return last is None or not 0 <= now - last < self._bounds.resolution_seconds

    def fairness(self, since: float, most: int = MOST_ROWS_ANSWERED) -> list[FairnessMoment]:
        """Answers how fairly queries have fared since a time."""
        return [_message(FairnessMoment, row) for row in self._read("fairness", {}, since, most)]

    def note_events(self, events: Iterable[Event], now: float) -> None:
        """Writes down events."""
        self._write({"events": [tuple(event.model_dump().values()) for event in events]}, now)

    def moments(
        self, query: str | None, site: str | None, since: float, most: int = MOST_ROWS_ANSWERED
    ) -> HistoryAnswer:
        """Answers what was since a time, of one query or site if one is named."""
        sites = [] if query else self._read("site_moments", {"site": site}, since, most)
        queries = self._read("query_moments", {"query": query, "site": site}, since, most)
        return HistoryAnswer(
            sites=[_message(SiteMoment, row) for row in sites],
            queries=[_message(QueryMoment, row) for row in queries],
        )

    def events(self, since: float, most: int = MOST_ROWS_ANSWERED) -> list[Event]:
        """Answers what has happened since a time."""
        return [_message(Event, row) for row in self._read("events", {}, since, most)]

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    def _write(self, rows: dict[str, list[tuple[object, ...]]], now: float) -> None:
        count = sum(map(len, rows.values()))
        if not count:
            return

        def work(connection: sqlite3.Connection) -> None:
            with connection:
                for table, some in rows.items():
                    if some:
                        marks = ", ".join("?" * len(some[0]))
                        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", some)
            self._since_cleaning += count
            if self._since_cleaning >= ROWS_BETWEEN_CLEANINGS:
                self._since_cleaning = 0
                self._clean(connection, now)

        self._with(work, None)

    def _clean(self, connection: sqlite3.Connection, now: float) -> None:
        with connection:
            for table in TABLES:
                connection.execute(
                    f"DELETE FROM {table} WHERE at < ?", (now - self._bounds.longest_age_seconds,)
                )
                connection.execute(
                    f"DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?",
                    (self._bounds.most_rows,),
                )

    def _read(
        self, table: str, wanted: dict[str, str | None], since: float, most: int
    ) -> list[sqlite3.Row]:
        named = {column: value for column, value in wanted.items() if value is not None}
        where = "".join(f" AND {column} = ?" for column in named)
        text = f"SELECT * FROM {table} WHERE at >= ?{where} ORDER BY at DESC, rowid DESC LIMIT ?"
        values = (since, *named.values(), most)
        nothing: list[sqlite3.Row] = []
        return self._with(lambda file: file.execute(text, values).fetchall()[::-1], nothing)

    def _with(self, work: Callable[[sqlite3.Connection], Answer], otherwise: Answer) -> Answer:
        """Does something with the file; goes on without it where it cannot be used."""
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                log.warning("the history %s cannot be used: %s", self._path, error)
                if getattr(error, "sqlite_errorcode", None) in DAMAGE:
                    self._connection.close()
                    self._set_aside()
                    self._connection = self._connect()
                return otherwise

    def _open(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._connect()
        except sqlite3.OperationalError as error:
            raise PenstockError(
                f"the history must be a file that can be written; got {self._path}: {error}"
            ) from None
        except OSError as error:
            raise PenstockError(f"{self._path}: {error.strerror}") from None
        except sqlite3.DatabaseError as error:
            log.warning("the history %s is damaged: %s", self._path, error)
            self._set_aside()
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            connection.executescript(SCHEMA)
            for table in TABLES:
                connection.execute(f"SELECT at FROM {table} LIMIT 1")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _set_aside(self) -> None:
        """Renames the file, with what SQLite keeps beside it."""
        aside = self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}")
        for ending in ("", "-wal", "-shm"):
            part = self._path.with_name(self._path.name + ending)
            if part.exists():
                part.rename(aside.with_name(aside.name + ending))
        log.warning("it is kept as %s, and a new one is begun", aside)


def _site_row(beat: Heartbeat, now: float) -> tuple[object, ...]:
    return (
        now,
        beat.site,
        *(getattr(beat.statistics, name) for name in list(SiteMoment.model_fields)[2:]),
    )


def _query_rows(beat: Heartbeat, now: float) -> list[tuple[object, ...]]:
    return [
        (now, query.query, beat.site, query.sic, query.sic_now, query.rows)
        for query in beat.queries
    ]


Moment_ = TypeVar("Moment_", SiteMoment, QueryMoment, Event, FairnessMoment)


def _message(kind: type[Moment_], row: sqlite3.Row) -> Moment_:
    return kind.model_validate(dict(row))
