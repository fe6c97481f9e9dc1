"""A link between fragments: nothing is lost or doubled, and the disk stays bounded."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.federation.link import (
    KEPT_SECONDS,
    DirectoryLinks,
    LinkError,
    LinkName,
    LinkWriter,
    read_link,
)

COLUMNS = "n BIGINT, _time TIMESTAMP"


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last).selectExpr("id AS n", "timestamp_seconds(id) AS _time")


def read_all(spark: SparkSession, directory: Path, checkpoint: Path, out: Path) -> list[int]:
    """Reads what is there by a stream, as a fragment does, and returns all that it ever read."""
    query = (
        read_link(spark, directory, COLUMNS)
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .format("parquet")
        .start(str(out))
    )
    query.awaitTermination(60)
    assert query.exception() is None
    return sorted(row.n for row in spark.read.parquet(str(out)).collect())


@pytest.fixture
def link(tmp_path: Path) -> Path:
    return DirectoryLinks(tmp_path).directory(LinkName("q", "root", "links"))


def test_a_batch_that_is_sent_again_is_read_once(
    spark: SparkSession, tmp_path: Path, link: Path
) -> None:
    writer = LinkWriter([link], "rome@q", "a1")
    places = tmp_path / "checkpoint", tmp_path / "out"
    writer.write(rows(spark, 0, 10), 0)
    writer.write(rows(spark, 0, 10), 0)  # before it was read
    writer.write(rows(spark, 10, 20), 1)
    assert read_all(spark, link, *places) == list(range(20))
    LinkWriter([link], "rome@q", "a1").write(rows(spark, 10, 20), 1)  # after it: a crash in between
    writer.write(rows(spark, 20, 30), 2)
    assert read_all(spark, link, *places) == list(range(30))


def test_two_senders_and_a_checkpoint_that_began_anew_keep_apart(
    spark: SparkSession, tmp_path: Path, link: Path
) -> None:
    LinkWriter([link], "rome@q", "a1").write(rows(spark, 0, 5), 0)
    LinkWriter([link], "oslo@q", "b2").write(rows(spark, 5, 10), 0)
    LinkWriter([link], "rome@q", "c3").write(rows(spark, 10, 15), 0)
    read = read_all(spark, link, tmp_path / "checkpoint", tmp_path / "out")
    assert read == list(range(15))


def test_every_receiver_gets_every_batch(spark: SparkSession, tmp_path: Path, link: Path) -> None:
    other = DirectoryLinks(tmp_path).directory(LinkName("q", "root", "links", 1))
    writer = LinkWriter([link, other], "rome@q", "a1")
    assert writer.write(rows(spark, 0, 7), 0) == 7
    for number, directory in enumerate((link, other)):
        read = read_all(spark, directory, tmp_path / f"c{number}", tmp_path / f"out{number}")
        assert read == list(range(7))


def test_a_batch_without_rows_sends_nothing(spark: SparkSession, link: Path) -> None:
    assert LinkWriter([link], "rome@q", "a1").write(rows(spark, 0, 0), 0) == 0
    assert list(link.glob("*.parquet")) == []


def test_files_that_were_read_go_and_others_go_after_an_hour(
    spark: SparkSession, tmp_path: Path, link: Path
) -> None:
    now = [0.0]
    writer = LinkWriter([link], "rome@q", "a1", clock=lambda: now[0])
    places = tmp_path / "checkpoint", tmp_path / "out"
    for batch in range(4):
        writer.write(rows(spark, batch, batch + 1), batch + 1)
        read_all(spark, link, *places)
    left = {file.name for file in link.glob("*.parquet")}
    assert len(left) <= 2  # Spark deletes what a batch has read when the next one is committed
    now[0] = max(file.stat().st_mtime for file in link.glob("*.parquet")) + KEPT_SECONDS + 1
    writer.write(rows(spark, 9, 10), 100)
    newest = "rome@q+a1-000000000100.parquet"  # old by the clock that was moved, or just not
    assert {file.name for file in link.glob("*.parquet")} <= {newest}
    assert list((link / ".unfinished").iterdir()) == []


def test_a_link_that_cannot_be_written_says_which_and_why_and_takes_the_batch_later(
    spark: SparkSession, tmp_path: Path, link: Path
) -> None:
    writer = LinkWriter([link], "rome@q", "a1")
    writer.write(rows(spark, 0, 5), 0)
    aside = link.rename(link.with_name("aside"))
    link.touch()  # a file in the directory's place, which not even an administrator can write into
    with pytest.raises(LinkError, match=rf"the link {link} cannot be written: \S+"):
        writer.write(rows(spark, 5, 9), 1)
    with pytest.raises(LinkError, match="cannot be written"):
        LinkWriter([link], "rome@q", "a1")
    with pytest.raises(LinkError, match=rf"the link {link} cannot be read: \S+"):
        read_link(spark, link, COLUMNS)
    link.unlink()
    aside.rename(link)
    writer.write(rows(spark, 5, 9), 1)
    assert read_all(spark, link, tmp_path / "checkpoint", tmp_path / "out") == list(range(9))


def test_a_batch_that_cannot_be_computed_is_no_fault_of_the_link(
    spark: SparkSession, link: Path
) -> None:
    broken = rows(spark, 0, 3).selectExpr("raise_error('bad') AS n", "_time")
    with pytest.raises(PySparkException, match="bad"):
        LinkWriter([link], "rome@q", "a1").write(broken, 0)
