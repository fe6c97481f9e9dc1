"""Programs in plain PySpark, and the same behind a gate: two changes of their text, same results.

``programs`` holds plain streaming programs. Their gated variant imports ``penstock.functions``
where it imported Spark's, and sends the stream through a gate; nothing else changes.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import Site

PROGRAMS = Path(__file__).parent / "programs"
IMPORT = ("from pyspark.sql import functions as sf\n", "from penstock import functions as sf\n")
GATE = (".parquet(rides)\n", '.parquet(rides)\n        .transform(site.gate, query="rides")\n')
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
RIDES = (
    "number bigint, pickup timestamp, route string, fare double, tip decimal(10,2), km float, "
    "passengers int"
)
FILES, RIDES_A_FILE = 3, 80


def gated(text: str) -> str:
    for plain, changed in (IMPORT, GATE):
        assert plain in text
        text = (
            text.replace(plain, changed, 1) if plain == IMPORT[0] else _last(text, plain, changed)
        )
    return text


def _last(text: str, plain: str, changed: str) -> str:
    """Where the stream is read; the first place only looks up the schema."""
    return changed.join(text.rsplit(plain, 1))


def run(text: str, **given: Any) -> DataStreamWriter:
    """What the program writes."""
    scope: dict[str, Any] = {"__name__": "program", **given}
    exec(compile(text, "program", "exec"), scope)
    made: DataStreamWriter = scope["writer"](scope["spark"], scope["rides"], scope["zones"])
    return made


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("programs")
    for number in range(FILES):
        rides = [_ride(number * RIDES_A_FILE + i) for i in range(RIDES_A_FILE)]
        frame = spark.createDataFrame(rides, RIDES).coalesce(1)
        frame.write.mode("append").parquet(str(folder / "rides"))
    last = spark.createDataFrame([(0, NOON + timedelta(days=1), *[None] * 5)], RIDES)
    last.write.mode("append").parquet(str(folder / "rides"))
    zones = [("r0", "north"), ("r1", "south"), ("r2", "north")]
    spark.createDataFrame(zones, "route string, zone string").write.parquet(str(folder / "zones"))
    return {"rides": str(folder / "rides"), "zones": str(folder / "zones")}


def _ride(i: int) -> tuple[Any, ...]:
    fare = None if i % 11 == 0 else 5 + 10 * abs(math.sin(i))
    tip = None if i % 7 == 0 else Decimal(i % 500) / 100
    when = NOON + timedelta(seconds=i if i % 40 < 30 else i + 8)
    return 2**60 + i, when, f"r{i % 4}", fare, tip, 1.0 + i % 9, i % 4


def _results(frame: DataFrame) -> tuple[Any, list[str]]:
    shape = [(field.name, field.dataType, field.nullable) for field in frame.schema]
    return shape, sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_a_gated_program_is_the_plain_one(
    spark: SparkSession, data: dict[str, str], path: Path
) -> None:
    text = path.read_text()
    plain = run(text, spark=spark, **data).queryName(f"{path.stem}_plain").start()
    plain.processAllAvailable()
    plain.stop()
    with Site(spark, interval="100 milliseconds", latency="10 minutes") as site:
        writer = run(gated(text), spark=spark, site=site, **data)
        query = writer.queryName(f"{path.stem}_gated").start()
        query.processAllAvailable()
        query.stop()
        assert site.ledger.total()[0] == FILES * RIDES_A_FILE + 1
        assert site.ledger.total()[2] == 0
    expected = _results(spark.table(f"{path.stem}_plain"))
    assert len(expected[1]) >= 3
    assert _results(spark.table(f"{path.stem}_gated")) == expected
