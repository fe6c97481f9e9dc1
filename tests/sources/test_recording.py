"""The rows of a file: in order of event time, over laps, in types that Spark has."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.sources.generators import RecordBatch
from penstock.sources.recording import Recording

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")


def values(batches: list[RecordBatch], column: str) -> list[Any]:
    return [value for batch in batches for value in batch.column(column).to_pylist()]


SECONDS = [30.0, 10.0, 20.0, 20.5]


@pytest.mark.parametrize(
    ("times", "lap"),
    [
        (pa.array(SECONDS), 26_666_667),
        (pa.array([30, 10, 20, 20]), 27_000_000),
        (
            pa.array([1_000_000_000 * s for s in (30, 10, 20, 20)]).cast(pa.timestamp("ns")),
            26666667,
        ),
        (pa.array([30, 10, 20, 20]).cast(pa.timestamp("s", tz="Europe/Rome")), 26_666_667),
    ],
)
def test_event_time_is_sorted_and_goes_on_over_laps(times: Any, lap: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"at": times, "n": [3, 0, 1, 2]}), path)
    file = Recording(str(path), "at")
    batches: list[Any] = [*file.between(0, 9)]
    numbers = [n for batch in batches for n in batch.column("n").to_pylist()]
    raw = pa.chunked_array([batch.column("at") for batch in batches])
    assert numbers == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert file.lap == lap
    factor = 1 if pa.types.is_timestamp(raw.type) else 1_000_000
    micros = np.asarray(raw.cast(pa.int64() if factor == 1 else pa.float64())) * factor
    assert np.allclose(np.diff(micros)[[3, 7]], lap - file.marks[-1])
    assert np.allclose(micros[4] - micros[0], lap)
    assert np.all(np.diff(micros) >= 0)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_csv(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pa.output_stream(path) as out:
        out.write(b"at,key,void\n2024-01-01 00:00:02,b,\n2024-01-01 00:00:01,a,\n")
    file = Recording(str(path), "at")
    assert str(file.schema.field("at").type) == "timestamp[us, tz=UTC]"
    assert str(file.schema.field("void").type) == "string"
    assert file.count == 2
    assert values([*file.between(1, 4)], "key") == ["b", "a", "b"]


def test_types_that_spark_lacks_are_widened(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    words = pa.array(["x", "y"]).dictionary_encode()
    pq.write_table(pa.table({"word": words, "count": pa.array([1, 2], pa.uint32())}), path)
    file = Recording(str(path), None)
    assert [str(kind) for kind in file.schema.types] == ["string", "int64"]
    assert values([*file.between(0, 3)], "word") == ["x", "y", "x"]


def test_event_times_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"at": [1.0, None]}), path)
    with pytest.raises(ValueError, match="'at', which is empty in 1 rows"):
        _ = Recording(str(path), "at").marks
