"""A recording is a file whose rows are the rows of a stream, over and over if need be.

The rule is that of `penstock.sources.generators`: a row depends on its number alone.
Nothing here runs per row in Python, and no process loads a file twice: `recording` caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from penstock import arrow as pa
from penstock.errors import PenstockError
from penstock.sources.generators import BLOCK_ROWS, RecordBatch
from penstock.sources.schedule import SECOND, Integers

SUFFIXES = (".parquet", ".csv", ".csv.gz")
"""The files that can be replayed, by how their names end."""


class Recording:
    """A Parquet or CSV file as rows, sorted by its event time if one is named.

    Timestamps without a zone are UTC. `laps` of the file follow each other when it loops: event
    time goes on, shifted by `lap` for each, which is the file's span and one mean step, so that
    the seam looks like any other pair of rows.
    """

    def __init__(self, path: str, time: str | None) -> None:
        self.path = path
        self.time = time

    @cached_property
    def schema(self) -> Any:
        """The Arrow schema of the rows, in types that Spark has."""
        if self._plain:
            return _spark_schema(import_module("pyarrow.parquet").read_schema(self.path))
        return _spark_schema(self._load(None).schema)  # a CSV's types are known at its end

    @cached_property
    def count(self) -> int:
        """How many rows one lap has."""
        if self.time is not None:
            return len(self.marks)
        if self._plain:
            return int(import_module("pyarrow.parquet").read_metadata(self.path).num_rows)
        return int(self._load(self.schema.names[:1]).num_rows)

    @cached_property
    def marks(self) -> Integers:
        """The event times of the rows in order, in microseconds since the first."""
        ordered = np.sort(_micros(self._times, str(self.time)))
        marks: Integers = ordered - ordered[:1]
        return marks

    @cached_property
    def lap(self) -> int:
        """Microseconds of event time from the start of one lap to the start of the next."""
        span, gaps = int(self.marks[-1]), len(self.marks) - 1
        lap = span + max(1, round(span / gaps)) if span else SECOND
        return -(-lap // SECOND) * SECOND if pa.types.is_integer(self._times.type) else lap

    @cached_property
    def table(self) -> Any:
        """The decoded file, in order."""
        raw = self._load(None)
        table = raw.cast(_spark_schema(raw.schema), safe=False)
        if self.time is not None:
            times = _micros(table.column(self.time), self.time)
            if np.any(times[1:] < times[:-1]):
                table = table.take(pa.array(np.argsort(times, kind="stable")))
        return table.combine_chunks()

    def between(self, start: int, stop: int) -> Iterator[RecordBatch]:
        """Yields the rows [start, stop), counted on over the laps."""
        count = self.table.num_rows
        while start < stop:
            lap, skip = divmod(start, count)
            length = min(count - skip, stop - start)
            for batch in self.table.slice(skip, length).to_batches(max_chunksize=BLOCK_ROWS):
                yield self._shifted(batch, lap)
            start += length

    def _shifted(self, batch: Any, lap: int) -> RecordBatch:
        shifted: RecordBatch = batch
        if lap and self.time is not None:
            place = batch.schema.get_field_index(self.time)
            field, column = batch.schema.field(place), batch.column(place)
            span = _amount(lap * self.lap, field.type)
            later = import_module("pyarrow.compute").add_checked(column, span)
            shifted = batch.set_column(place, field, later)
        return shifted

    @cached_property
    def _times(self) -> Any:
        return self._load([str(self.time)]).column(0)

    @property
    def _plain(self) -> bool:
        """One Parquet file, whose footer answers without reading it (not so for a directory)."""
        return self.path.endswith(".parquet") and Path(self.path).is_file()

    def _load(self, columns: list[str] | None) -> Any:
        if self.path.endswith(".parquet"):
            parquet = import_module("pyarrow.parquet")
            return parquet.read_table(self.path, columns=columns, memory_map=True)
        csv = import_module("pyarrow.csv")
        convert = csv.ConvertOptions(include_columns=columns)
        return csv.read_csv(self.path, convert_options=convert)


@lru_cache(maxsize=4)
def recording(path: str, time: str | None, version: int) -> Recording:
    """Returns a file, which a process loads once. `version` is its modification time: another file
    of the same name has another."""
    del version
    return Recording(path, time)


def version_of(path: str | None) -> int:
    """Returns the modification time of a file that can be replayed, by which `recording` notices
    that the file was replaced."""
    if path is None:
        return 0
    if not path.endswith(SUFFIXES):
        raise PenstockError(
            f"option 'path' must end with {', '.join(SUFFIXES)}, such as 'rides.parquet'; got "
            f"{path!r}"
        )
    if not Path(path).exists():
        raise PenstockError(f"option 'path' must be a file that exists; got {path!r}")
    return Path(path).stat().st_mtime_ns


def _micros(column: Any, name: str) -> Integers:
    """Returns event times, which are timestamps or numbers of seconds, as microseconds."""
    if column.null_count:
        raise PenstockError(
            "option 'time' must be a column that is empty in no row, so drop such rows; got "
            f"{name!r}, which is empty in {column.null_count} rows"
        )
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
        return np.asarray(micros.cast(pa.int64()).to_numpy(), dtype=np.int64)
    seconds = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    if not np.all(np.isfinite(seconds)):
        raise PenstockError(
            f"option 'time' must be a column of finite values; got {name!r}, which has others"
        )
    return np.rint(seconds * SECOND).astype(np.int64)


def _amount(micros: int, kind: Any) -> Any:
    """Returns a span of time as something that can be added to a column of type `kind`."""
    if pa.types.is_timestamp(kind):
        return pa.scalar(micros, pa.duration("us"))
    return pa.scalar(micros // SECOND if pa.types.is_integer(kind) else micros / SECOND, kind)


def _spark_schema(found: Any) -> Any:
    """Returns a schema in the nearest types that Spark reads."""
    return pa.schema([field.with_type(_spark_type(field.type)) for field in found])


def _spark_type(kind: Any) -> Any:
    """Returns the nearest Arrow type that Spark reads."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    wider = {"null": "string", "uint8": "int16", "uint16": "int32", "halffloat": "float32"}
    wider |= {"uint32": "int64", "uint64": "int64"}
    return pa.type_for_alias(wider[str(kind)]) if str(kind) in wider else kind
