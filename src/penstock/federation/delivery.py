"""Delivers each window of a replicated result once: of the replica with the higher SIC.

The root of a query may run at two sites or three. Each replica writes what it has of a window, a
*candidate*, into a directory that they share, and looks for the others'. The one with the most SIC
delivers: it links its file into the result, which succeeds for one of them only. A replica that
has waited for a while delivers what it has, since the others may have died. So a window is
delivered once, with one replica alive there is no gap, and nobody is in command (the thesis' future
work).

A file of a result is named by its window's time. Whoever reads the directory as Parquet sees whole
windows.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

log = logging.getLogger("penstock")
CAME = "_came"
"""The column of a candidate's rows with the SIC that reached them."""
PATIENCE_INTERVALS = 3.0
"""How long a replica waits for the others' candidates, and then for a better one's delivery."""
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class _Candidate:
    window: str
    replica: int
    sic: float
    file: Path


class Delivery:
    """Delivers the windows of one replica, from a thread of its own."""

    def __init__(
        self,
        candidates: Path,
        results: Path,
        replica: int,
        replicas: int,
        interval: float,
        time_column: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._candidates, self._results = candidates, results
        self._replica, self._replicas = replica, replicas
        self._patience = PATIENCE_INTERVALS * interval
        self._time_column, self._clock = time_column, clock
        self._since: dict[str, float] = {}
        """When this replica's candidate for a window was first seen waiting."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-delivery", daemon=True)
        for directory in (candidates, results):
            directory.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Begins to deliver, also what was left waiting before a restart."""
        self._thread.start()

    def stop(self) -> None:
        """Delivers no more; what waits is left to the other replicas, or to the next start."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Takes the result rows of a batch: each window is one candidate."""
        del number  # a batch that runs again writes the same candidates again
        arrow = import_module("pyarrow.compute")
        table: Any = batch.toArrow()
        for moment in arrow.unique(table[self._time_column]):
            rows = table.filter(arrow.equal(table[self._time_column], moment))
            sic = float(arrow.sum(rows[CAME]).as_py() or 0.0)
            self._write(_name_of(moment.as_py()), sic, rows.drop_columns([CAME]))

    def look(self) -> None:
        """Delivers what can be delivered now."""
        now = self._clock()
        waiting = self._waiting()
        for window, candidates in waiting.items():
            mine = next((c for c in candidates if c.replica == self._replica), None)
            if mine is None:
                continue
            since = self._since.setdefault(window, now)
            best = max(candidates, key=lambda c: (c.sic, -c.replica))
            waited = (now - since) / self._patience
            complete = len(candidates) == self._replicas
            if (mine == best and (complete or waited > 1.0)) or waited > 2.0:
                self._deliver(mine)
        self._since = {window: at for window, at in self._since.items() if window in waiting}

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.look()
            except OSError as error:  # a directory that is away for a while, or full
                log.warning("the results wait in %s: %s", self._candidates, error)

    def _write(self, window: str, sic: float, rows: Any) -> None:
        if self._result(window).exists():
            return  # another replica has delivered it already
        name = f"{window}+{self._replica}+{sic:.9f}.parquet"
        unfinished = self._candidates / f".{name}"
        import_module("pyarrow.parquet").write_table(rows, unfinished)
        for old in self._candidates.glob(f"{window}+{self._replica}+*.parquet"):
            old.unlink(missing_ok=True)
        unfinished.replace(self._candidates / name)

    def _waiting(self) -> dict[str, list[_Candidate]]:
        found: dict[str, list[_Candidate]] = {}
        for file in self._candidates.glob("*.parquet"):
            window, replica, sic = file.name.removesuffix(".parquet").split("+")
            if self._result(window).exists():
                file.unlink(missing_ok=True)  # its replica may never come back for it
                continue
            found.setdefault(window, []).append(_Candidate(window, int(replica), float(sic), file))
        return found

    def _deliver(self, mine: _Candidate) -> None:
        with suppress(FileExistsError, FileNotFoundError):  # another was quicker
            self._result(mine.window).hardlink_to(mine.file)
        mine.file.unlink(missing_ok=True)

    def _result(self, window: str) -> Path:
        return self._results / f"{window}.parquet"


def _name_of(moment: datetime | None) -> str:
    """Names a window by its time, such that names sort as times do.

    >>> _name_of(datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=UTC))
    '20260102T030405.600000'
    """
    if moment is None:
        return "none"
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return known.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%f")
