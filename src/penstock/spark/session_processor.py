"""Processes sessions as ``process_windows`` does windows: their concept is known when they end.

A session is the tuples of one owner, such as a user, none of which came later than a *gap* after
the one before, by event time. When the watermark has passed a session's end, the frequencies of its
groups are its concept, and each group gets its share. Several sessions of an owner may be open at a
time, and a late tuple may join two of them.
"""

import math
import pickle
import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from pyspark.sql import Column
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessorHandle,
    TimerValues,
)

from penstock.core.types import Floats, Ints
from penstock.errors import PenstockError
from penstock.spark import arguments
from penstock.spark.stored_windows import (
    GROUP,
    IS_RESULT,
    MOMENT,
    SESSION,
    SHARD,
    WindowProcessor,
)
from penstock.windows.buffer import Buffer, Chunk

ONE_WINDOW = 1.0
"""The length of the only window of a buffer that holds one session."""


def session_of(
    session: float | str | None,
    of: str | Sequence[str],
    known: Sequence[str],
    window: float | str | None,
    slide: float | str | None,
) -> tuple[float, tuple[Column, ...]]:
    """Returns the gap that ends sessions, 0 where there are none, and who has sessions."""
    owners = arguments.columns("of", of, known)
    if session is None:
        if owners:
            raise PenstockError(
                "of must be given with session, such as session='30m' and of='user'; got no session"
            )
        return 0.0, ()
    if window is not None or slide is not None:
        raise PenstockError(
            "session must be given instead of window and slide, such as '30m'; got "
            f"{window!r} and {slide!r}, too"
        )
    gap = arguments.duration("session", session)
    arguments.whole_microseconds("session", session, gap)
    return gap, owners


@dataclass(frozen=True)
class OpenSession:
    """Is a session that has not ended."""

    first: float
    last: float
    chunks: tuple[int, ...]
    """The numbers under which its tuples are stored."""
    stored: int
    """How many tuples are stored."""


@dataclass
class OpenSessions:
    """Lists the sessions of an owner that have not ended."""

    open: list[OpenSession] = field(default_factory=list)
    chunks: int = 0
    """How many chunks there ever were, so that each has a number of its own."""


class SessionProcessor(WindowProcessor):
    """Stores the rows of an owner, and processes its sessions.

    ``length`` is the gap that ends a session.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the owner's state."""
        self._handle = handle
        self._sessions = handle.getValueState("sessions", "sessions binary")
        self._session_chunks = handle.getMapState("session_chunks", "part int", "chunk binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Stores rows, and asks Spark to call when their sessions have ended."""
        del timerValues
        sessions = self._read_sessions()
        for some in rows:
            self._store_sessions(sessions, some, int(key[0]))
        for end in {math.ceil((one.last + self.length) * 1000) for one in sessions.open}:
            self._handle.registerTimer(end)
        self._write_sessions(sessions)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Processes the sessions that have ended; one may have gone on since the timer was set."""
        del timerValues
        sessions, now = self._read_sessions(), expiredTimerInfo.getExpiryTimeInMs()
        over = [one for one in sessions.open if math.ceil((one.last + self.length) * 1000) <= now]
        for one in sorted(over, key=lambda session: session.first):
            began = clock.perf_counter()
            buffer = Buffer(ONE_WINDOW, ONE_WINDOW, chunks=self._chunks_of(one))
            staged = buffer.take(ONE_WINDOW, self.shedder)
            processed = self._processed(staged, one.first, one.last + self.length, began)
            told = processed.rows.assign(**{IS_RESULT: True})
            for part in (told, self._counts(processed)):
                part.insert(0, "session", str(key[1]))
                yield part
            self._drop(one)
            sessions.open.remove(one)
        self._write_sessions(sessions)

    # --- state -------------------------------------------------------------------------------

    def _read_sessions(self) -> OpenSessions:
        stored = self._sessions.get()
        return OpenSessions() if stored is None else pickle.loads(stored[0])

    def _write_sessions(self, sessions: OpenSessions) -> None:
        if sessions.open:
            self._sessions.update((pickle.dumps(sessions, protocol=5),))
        else:
            self._sessions.clear()

    def _store_sessions(self, sessions: OpenSessions, rows: pd.DataFrame, shard: int) -> None:
        """Stores rows, with a seed made of what came, so that a retry draws alike (law 8)."""
        # by place: Spark gives columns whose names begin with "_" other names here
        rows = rows.set_axis([*self.columns, MOMENT, GROUP, SHARD, SESSION], axis=1)
        rows = rows.sort_values(MOMENT, kind="stable", ignore_index=True)
        moment = rows[MOMENT].to_numpy(dtype=np.float64)
        seed = (shard, sessions.chunks, abs(int(moment[0] * 1000)))
        draw = np.random.default_rng(seed).random(moment.size)
        for mine in _runs(moment, self.length):
            part = rows.iloc[mine]
            columns = {name: part[name].to_numpy() for name in self.columns}
            names = part[GROUP].to_numpy(dtype=np.str_)
            chunk = Chunk.of(0, names, draw[mine], columns, self.value)
            self._session_chunks.updateValue((sessions.chunks,), (pickle.dumps(chunk, protocol=5),))
            first, last = float(moment[mine[0]]), float(moment[mine[-1]])
            self._join(sessions, OpenSession(first, last, (sessions.chunks,), mine.size))
            sessions.chunks += 1

    def _join(self, sessions: OpenSessions, fresh: OpenSession) -> None:
        """Adds a session, which may go on with those that are there, or join them."""
        near = [
            one
            for one in sessions.open
            if one.first < fresh.last + self.length and fresh.first < one.last + self.length
        ]
        whole = OpenSession(
            min(one.first for one in (*near, fresh)),
            max(one.last for one in (*near, fresh)),
            tuple(number for one in (*near, fresh) for number in one.chunks),
            sum(one.stored for one in (*near, fresh)),
        )
        if self.most is not None and whole.stored > self.most:
            whole = self._thinned(whole)
        sessions.open = [*(one for one in sessions.open if one not in near), whole]

    def _thinned(self, session: OpenSession) -> OpenSession:
        chunks = self._chunks_of(session)
        thinned = Buffer(ONE_WINDOW, ONE_WINDOW, self.most, chunks).bounded().chunks
        for number, chunk in zip(session.chunks, thinned, strict=True):
            self._session_chunks.updateValue((number,), (pickle.dumps(chunk, protocol=5),))
        return replace(session, stored=sum(chunk.key.size for chunk in thinned))

    def _chunks_of(self, session: OpenSession) -> tuple[Chunk, ...]:
        found = (cast(Any, self._session_chunks.getValue((number,))) for number in session.chunks)
        return tuple(pickle.loads(value[0]) for value in found)

    def _drop(self, session: OpenSession) -> None:
        for number in session.chunks:
            self._session_chunks.removeKey((number,))


def _runs(moment: Floats, gap: float) -> list[Ints]:
    """Returns the places of tuples in order of time that no gap divides.

    >>> [run.tolist() for run in _runs(np.array([0.0, 1.0, 3.5, 4.0]), 2.0)]
    [[0, 1], [2, 3]]
    """
    return np.split(np.arange(moment.size), np.flatnonzero(np.diff(moment) >= gap) + 1)
