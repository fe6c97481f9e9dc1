"""What waits at the sources of a query beyond the batch that starts, and which limit left it there.

Kafka and ``replay`` number their tuples, so what waits is the newest offset less the batch's end.
Of a folder, Spark knows the files that it has listed and not read; what came since it last listed
them is missing, so that this is a lower bound. Other sources do not tell.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.spark.progress import Progress, counts_rows, whole_numbers
from penstock.spark.stream_state import FilesRead, ReadLimit, SourceState

FULL_SHARE = 0.95
"""A batch that read so much of what its limit allows was cut by the limit."""
RECENT_BATCHES = 4
"""Over how many batches it is decided what holds a query back."""
BEGINS_AT, ENDS_AT = 3, 1
"""Of these batches, how many a limit must have held back for it to be named, and to stay so."""


class Lag(NamedTuple):
    """What waits beyond a batch."""

    tuples: float | None = None
    """None where no source can tell."""
    limit: ReadLimit | None = None
    """The limit that cut the batch short, where one did."""
    files: tuple[int, ...] = ()
    """How many files are in the batch, by source; 0 where that is not known."""


@dataclass
class SourceBacklog:
    """One source of a query."""

    limit: ReadLimit | None
    files_seen: int | None = None
    """When the last batch was planned."""
    rows_per_file: float | None = None
    """Of late."""

    def beyond(self, state: SourceState) -> Lag:
        """Returns what waits beyond the batch that is planned."""
        if state.files is not None:
            return self._files_beyond(state.files)
        if state.latest is None or not counts_rows(state.after):
            return Lag()
        waiting = max(whole_numbers(state.latest) - whole_numbers(state.after), 0)
        return Lag(waiting, self.limit if waiting and self._is_full(state) else None)

    def _is_full(self, state: SourceState) -> bool:
        """Says whether the batch has as many rows as the limit allows, if it is one of rows.

        Of the very first batch nobody knows, as Spark does not tell where it begins.
        """
        if self.limit is None or not self.limit.of_rows or state.before is None:
            return False
        rows = whole_numbers(state.after) - whole_numbers(state.before)
        return rows >= FULL_SHARE * self.limit.value

    def _files_beyond(self, files: FilesRead) -> Lag:
        in_batch = self._files_in_batch(files)
        if files.unread:
            rows = self.rows_per_file
            tuples = None if rows is None else files.unread * rows
            return Lag(tuples, self.limit, (in_batch,))
        if self.limit is not None and self.limit.of_files and in_batch >= self.limit.value:
            return Lag(files=(in_batch,))  # all that it had listed: there may be more by now
        return Lag(0.0, files=(in_batch,))

    def _files_in_batch(self, files: FilesRead) -> int:
        before, self.files_seen = self.files_seen, files.seen
        if before is None:  # after a restart nobody has counted those that it saw before
            return 0 if files.before else files.seen
        return files.seen - before

    def learn(self, files: int, rows: int) -> None:
        """Takes in how many rows a batch had."""
        if files > 0 and rows > 0:
            self.rows_per_file = rows / files


class Backlog:
    """What waits at all sources of a query. Those that cannot tell are left out of the sum."""

    def __init__(self, limits: Sequence[ReadLimit | None]) -> None:
        self._sources = [SourceBacklog(limit) for limit in limits]

    def beyond(self, states: Sequence[SourceState]) -> Lag:
        """Returns what waits beyond the batch that is planned; asked once for each batch."""
        lags = [source.beyond(s) for source, s in zip(self._sources, states, strict=True)]
        known = [lag.tuples for lag in lags if lag.tuples is not None]
        return Lag(
            tuples=sum(known) if known else None,
            limit=next((lag.limit for lag in lags if lag.limit is not None), None),
            files=tuple(sum(lag.files) for lag in lags),
        )

    def learn(self, lag: Lag, progress: Progress) -> None:
        """Takes in a batch that has finished, and what was said of it when it was planned."""
        for source, files, told in zip(self._sources, lag.files, progress.sources, strict=False):
            source.learn(files, told.rows)


def told_by(progress: Progress) -> Lag:
    """Returns what Spark's report says that waited beyond a batch."""
    states = [SourceState(source.start, source.end, source.latest) for source in progress.sources]
    return Backlog([None] * len(states)).beyond(states)


class BatchReading(NamedTuple):
    """How one batch went, seen from the sources."""

    started: float
    rows: int
    lag: Lag
    on_time: bool
    """Whether it ended before the next one was due, so that the machine had time left."""


class HeldBack:
    """Finds out whether a read limit, and not the machine, holds a query back.

    It does where batch after batch is cut short by the limit and ends before the next is due. Then
    shedding buys nothing: the query would not read more if it had less to do.
    """

    def __init__(self) -> None:
        self._recent: deque[BatchReading] = deque(maxlen=RECENT_BATCHES)
        self.by: str | None = None
        """The option's name."""

    def note(self, reading: BatchReading) -> bool:
        """Takes in a batch, and says whether this is the one since which a limit is named."""
        self._recent.append(reading)
        held = [r.lag.limit for r in self._recent if r.lag.limit is not None and r.on_time]
        if self.by is None and len(held) >= BEGINS_AT:
            self.by = held[-1].option
            return True
        if self.by is not None and len(held) <= ENDS_AT:
            self.by = None
        return False

    @property
    def let_in(self) -> float | None:
        """Tuples a second that the query has read of late; None where no limit is named."""
        seconds = self._seconds()
        rows = sum(reading.rows for reading in list(self._recent)[1:])
        return None if self.by is None or not seconds else rows / seconds

    @property
    def arriving(self) -> float | None:
        """Tuples a second that have arrived of late; None where that is not known either."""
        let_in = self.let_in
        told = [reading.lag.tuples for reading in self._recent]
        first, last = next(iter(told), None), next(reversed(told), None)
        if let_in is None or first is None or last is None:
            return None
        return max(let_in + (last - first) / self._seconds(), 0.0)

    def _seconds(self) -> float:
        return self._recent[-1].started - self._recent[0].started if self._recent else 0.0

    def __str__(self) -> str:
        """Says what is so and what to do about it, in one sentence."""
        let_in, arriving, waiting = self.let_in or 0.0, self.arriving, self._recent[-1].lag.tuples
        text = f"{self.by} holds it back, and not the machine: it lets in {let_in:,.0f} tuples a "
        text += "second" if arriving is None else f"second, and {arriving:,.0f} arrive"
        if arriving is not None and waiting is not None and arriving < let_in:
            return (
                f"{text}; what waits will have been read in {waiting / (let_in - arriving):.0f} s"
            )
        return f"{text}; shedding cannot help, a higher limit can"
