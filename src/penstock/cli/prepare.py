"""Writes the archive of classes with which Spark starts sooner: runs a short job, and ends it."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as plain

from penstock import Site, replay
from penstock import functions as sf
from penstock.errors import PenstockError
from penstock.spark.class_archive import ARCHIVE, reading, writing
from penstock.spark.session import check_java, session, workspace

BATCHES = 5
QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""How the job is compiled and cleaned up has no influence on the archive."""
LONGEST_JOB_SECONDS = 90.0
LONGEST_WRITING_SECONDS = 180.0


def prepare(archive: Path = ARCHIVE) -> Path:
    """Writes the archive, in the place of an older one, and answers where it is."""
    check_java()
    folder = _folder_of(archive)
    with tempfile.TemporaryDirectory(dir=folder) as beside, workspace("prepare") as directory:
        written = Path(beside) / archive.name
        java = f"{writing(written)} {QUICKLY} -Djava.io.tmpdir={directory}"
        settings = {"spark.driver.extraJavaOptions": java}
        with session(directory, "prepare", settings, LONGEST_WRITING_SECONDS) as spark:
            _run_job(spark, directory)
        if not works(written):
            raise PenstockError(
                "Java has written no archive that it can use: it must be Java 17 or newer, "
                f"and {folder} must have 250 MB left"
            )
        written.replace(archive)
    return archive


def works(archive: Path) -> bool:
    """Tries an archive. A JVM ends badly where a part of it is missing, as on a full disk."""
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = {**os.environ, "SPARK_SUBMIT_OPTS": reading(archive)}
    done = subprocess.run(
        [submit, "--version"], env=options, capture_output=True, cwd=archive.parent
    )
    return archive.exists() and done.returncode == 0


def _folder_of(archive: Path) -> Path:
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(f"{archive.parent} cannot be made: {error.strerror}") from error
    return archive.parent


def _run_job(spark: SparkSession, directory: Path) -> None:
    """Runs what most jobs have: a gate, a parser, a watermark, windows, and a sink of files."""
    site = Site(spark, latency="2 seconds")
    parsed = (
        replay(spark, generator="readings", rate=1000, keys=5)
        .transform(site.gate, query="readings")
        .withColumn("reading", plain.from_json("payload", "value DOUBLE, note STRING"))
        .withWatermark("_arrival", "1 second")
    )
    means = parsed.groupBy(plain.window("_arrival", "1 second"), "key").agg(
        sf.avg("reading.value", bounds=True), sf.count("*"), sf.sic()
    )
    results = directory / "means"
    writer = means.writeStream.format("parquet").option("path", str(results))
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    deadline = time.monotonic() + LONGEST_JOB_SECONDS
    while len(query.recentProgress) < BATCHES and time.monotonic() < deadline:
        query.awaitTermination(1)
    site.stop()
    query.stop()
    spark.read.parquet(str(results)).count()
