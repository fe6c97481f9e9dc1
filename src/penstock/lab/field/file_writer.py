"""Writes a directory of Parquet files at a rate, as a source whose reading can be limited."""

import os
import threading
import time
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from penstock.lab.field.producer import Traffic, ring_of

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")


class FileWriter:
    """Writes files of so many rows in a thread, after a backlog of rows that is there at once."""

    def __init__(self, folder: str, rate: float, rows: int, backlog: int = 0) -> None:
        self._folder, self._rate, self._rows = Path(folder), rate, rows
        self._folder.mkdir(parents=True)
        ring = ring_of(Traffic("", "", ((0.0, rate),)))[:rows]
        self._texts = [(head + b"2024-05-01T12:00:00Z" + tail).decode() for _, head, tail in ring]
        self.written = 0
        now = time.time()
        for number in range(backlog // rows):
            self._write(now - (backlog - (number + 1) * rows) / rate)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begin, before = time.time(), self.written
        while not self._over.is_set():
            due = begin + (self.written - before + self._rows) / self._rate
            if self._over.wait(max(due - time.time(), 0.0)):
                return
            self._write(time.time())

    def _write(self, moment: float) -> None:
        """Puts a file in place whole; its rows arrived evenly up to the moment."""
        ages = np.arange(self._rows)[::-1] / self._rate
        table = pa.table(
            {
                "value": self._texts,
                "timestamp": pa.array(
                    ((moment - ages) * 1e6).astype(np.int64), pa.timestamp("us", "UTC")
                ),
                "partition": np.zeros(self._rows, dtype=np.int32),
                "offset": np.arange(self.written, self.written + self._rows),
            }
        )
        hidden = self._folder / f".{self.written:012d}.parquet"
        pq.write_table(table, hidden)
        os.utime(hidden, (moment, moment))
        hidden.rename(self._folder / f"{self.written:012d}.parquet")
        self.written += self._rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
