"""Settling on files: results as without shedding, row for row; in parts; and what is gone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import settled
from penstock.cli.main import main
from penstock.cli.settle_runs import told
from penstock.settle import settling
from penstock.settle.past_stream import NOT_KEPT, Budget
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.past_batches import recall_past
from tests.settle.shed_job import (
    BATCHES,
    FILES,
    SHEDDING,
    Sheds,
    counted,
    rows_of,
    run_job,
    settle_job,
    write_files,
    written_job,
)

TUPLES = """\
queries:
  fares:
    strata: route
    sql: SELECT at, route, quarters FROM rides
    sink: {format: parquet, path: out}
"""


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has shed, and of one that has not."""
    folder = tmp_path_factory.mktemp("settle")
    write_files(folder / "in")
    site = run_job(spark, written_job(folder / "shed", FILES), Sheds)
    assert {entry.batch for entry in site.ledger if entry.shed > 100} == set(SHEDDING)
    at_once = FILES.replace("maxFilesPerTrigger: 1", "maxFilesPerTrigger: 100")
    run_job(spark, written_job(folder / "whole", at_once))
    return folder


@pytest.fixture
def job(runs: Path, tmp_path: Path) -> Path:
    """A copy of the job that has shed, to settle; its files are the same."""
    shutil.copytree(runs / "shed", tmp_path / "shed")
    path = tmp_path / "shed" / "job.yaml"
    path.write_text(path.read_text().replace("../in", str(runs / "in")))
    moved(tmp_path / "shed" / "out" / "_spark_metadata", runs / "shed", tmp_path / "shed")
    return path


def moved(log: Path, before: Path, after: Path) -> None:
    """Has a log of Spark's name the files at another place."""
    for path in [path for path in log.iterdir() if not path.name.startswith(".")]:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text(path.read_text().replace(str(before), str(after)))


def results(spark: SparkSession, runs: Path) -> Counter[tuple[object, ...]]:
    return counted(spark.read.parquet(str(runs / "whole" / "out")))


def test_settled_windows_are_as_without_shedding(
    spark: SparkSession, runs: Path, job: Path
) -> None:
    """Sums, means, extremes and medians with all their intervals; also where it is done twice."""
    out = str(job.parent / "out")
    assert counted(settled(spark, out)) != results(spark, runs)
    report = settle_job(spark, job)
    after = settled(spark, out)
    assert counted(after) == results(spark, runs)
    quality = after.agg(sf.min("_sic"), sf.max(sf.col("fare_high") - sf.col("fare_low")))
    assert tuple(quality.collect()[0]) == (1.0, 0.0)
    windows = report["windows"]
    assert windows["settled"] == windows["settled_now"] == windows["touched"] > 4
    assert (windows["left"], windows["lost"], report["lost"]) == (0, 0, [])
    assert settle_job(spark, job)["windows"] == {**windows, "settled_now": 0}
    assert counted(spark.read.parquet(out)) != results(spark, runs)  # those of the job stay


def test_the_worst_windows_come_first_and_the_next_call_goes_on(
    spark: SparkSession, runs: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a budget of time: window by window, and then the rest."""
    out = job.parent / "out"
    worst = spark.read.parquet(str(out)).groupBy(sf.unix_micros("begins")).agg(sf.min("_sic"))
    sic: dict[int, float] = dict(worst.collect())
    with monkeypatch.context() as patched:
        patched.setattr(settling, "TUPLES_AT_ONCE", 1)
        report = settle_job(spark, job, UntilSettled(place=out / "_settled", groups=2))
    notes = (out / "_settled").glob("*/_note.json")
    first = {start for note in notes for start in json.loads(note.read_text())["windows"]}
    windows = report["windows"]
    assert (len(first), windows["settled_now"], report["out_of_time"]) == (2, 2, True)
    assert windows["left"] == windows["touched"] - 2 > 2
    assert max(sic[start] for start in first) <= min(sic[start] for start in sic.keys() - first)
    report = settle_job(spark, job)
    assert report["windows"]["settled_now"] == windows["left"]
    assert (report["windows"]["left"], report["out_of_time"]) == (0, False)
    assert counted(settled(spark, str(out))) == results(spark, runs)


@dataclass(frozen=True)
class UntilSettled(Budget):
    """Is over as soon as so many groups of windows are settled."""

    place: Path = Path()
    groups: int = 0

    @property
    def is_over(self) -> bool:
        return len(list(self.place.glob("windows-*"))) >= self.groups


def test_files_that_are_gone_are_named_with_what_is_lost(
    spark: SparkSession, runs: Path, job: Path
) -> None:
    """Windows of which nothing is gone are settled all the same; the others keep their rows."""
    source = job.parent / "in"
    shutil.copytree(runs / "in", source)
    moved(job.parent / "state" / "fares" / "sources" / "0", runs / "in", source)
    job.write_text(job.read_text().replace(str(runs / "in"), str(source)))
    gone = SHEDDING[1]
    (source / f"{gone:03d}.parquet").unlink()
    report = settle_job(spark, job)
    (lost,) = report["lost"]
    (entry,) = [e for e in Ledger(job.parent / "state/site/ledger.jsonl") if e.batch == gone]
    assert (lost["batches"], lost["arrived"], lost["shed"]) == ([gone] * 2, 400, entry.shed)
    assert lost["why"] == f"1 of its files are gone, such as file://{source}/{gone:03d}.parquet"
    assert report["windows"]["settled"] > 0 < report["windows"]["lost"]
    assert any(line.startswith(f"  LOST: batch {gone}, of which 400") for line in told(report))
    whole = results(spark, runs)
    again = spark.read.parquet(str(job.parent / "out" / "_settled" / "*"))
    assert counted(again) <= whole
    assert set(counted(settled(spark, str(job.parent / "out")))) - set(whole)


def test_batches_that_are_not_kept_any_more_are_named(spark: SparkSession, job: Path) -> None:
    (folder,) = (job.parent / "state" / "site" / "past").iterdir()
    (segment,) = folder.iterdir()
    lines = segment.read_text().splitlines(keepends=True)
    until = max(i for i, line in enumerate(lines) if f'"batch": {SHEDDING[0]},' in line)
    segment.write_text("".join(line for line in lines[: until + 1] if '"table"' in line))
    with segment.open("a") as file:
        file.write("".join(lines[until + 1 :]))
    assert min(recall_past(job.parent / "state" / "site", folder.name)) == SHEDDING[1]
    report = settle_job(spark, job)
    (lost,) = report["lost"]
    entries = [e for e in Ledger(job.parent / "state/site/ledger.jsonl") if e.batch <= SHEDDING[0]]
    assert lost["batches"] == [0, SHEDDING[0]], "those before are missing from the same windows"
    assert lost["shed"] == sum(entry.shed for entry in entries) > 100
    assert lost["why"] == NOT_KEPT
    assert report["windows"]["lost"] > 0


def test_what_was_shed_can_be_had_instead(spark: SparkSession, runs: Path, tmp_path: Path) -> None:
    """Exactly that: with what the job let through, it is what came; and nothing is there twice."""
    shutil.copytree(runs / "in", tmp_path / "in")
    job = written_job(tmp_path / "job", FILES, TUPLES, "directory: ledger\n")
    site = run_job(spark, job, Sheds)
    place = str(tmp_path / "shed")
    assert (tmp_path / "job" / "ledger" / "past").is_dir()
    report = settle_job(spark, job, shed_to=place)
    assert report["written"] == report["shed"] == site.ledger.total()[2] > 500
    assert settle_job(spark, job, shed_to=place)["written_now"] == 0
    shed = spark.read.parquet(f"{place}/fares/*")
    assert {row[0] for row in shed.select("_batch").distinct().collect()} == set(SHEDDING)
    passed = spark.read.parquet(str(job.parent / "out"))
    both = counted(shed.drop("_batch")) + counted(passed.drop("_sic", "_weight"))
    assert both == counted(spark.read.parquet(str(tmp_path / "in")))
    assert sum(both.values()) == BATCHES * len(rows_of(0)["at"]) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "noon"], "--from must be a time, such as 2026-03-01T08:00:00; got 'noon'"),
        (["--query", "fare"], "--query: no query 'fare'; did you mean 'fares'?"),
        (["--seconds", "0"], "--seconds must be above 0, such as 60; got 0"),
    ],
)
def test_a_wrong_option_is_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["settle", str(written_job(tmp_path, FILES)), *options]) == 2
    assert capsys.readouterr().err == f"penstock settle: {message}\n"
