"""The archive of classes: JVMs take Spark's classes out of it, and do without where they cannot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from penstock.cli.prepare import works
from penstock.spark.class_archive import ARCHIVE, reading

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
OUT_OF_THE_ARCHIVE = "source: shared objects file (top)"


def loaded(log: Path, **variables: str) -> list[str]:
    """Starts a driver's JVM, which says its version and ends; which of Spark's classes it read."""
    options = f"{reading()} -Xlog:class+load:file={log}"
    told = subprocess.run(
        [SUBMIT, "--version"],
        env={**os.environ, "SPARK_SUBMIT_OPTS": options, **variables},
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stdout) == (0, "")
    return [line for line in log.read_text().splitlines() if "org.apache.spark" in line]


def test_a_driver_takes_its_classes_out_of_the_archive_of_the_set_up(tmp_path: Path) -> None:
    classes = loaded(tmp_path / "log")
    assert len(classes) > 100
    assert sum(OUT_OF_THE_ARCHIVE in line for line in classes) > 100


def test_a_driver_with_another_path_of_classes_does_without_and_says_nothing(
    tmp_path: Path,
) -> None:
    classes = loaded(tmp_path / "log", SPARK_CONF_DIR=str(tmp_path))
    assert len(classes) > 100
    assert not any(OUT_OF_THE_ARCHIVE in line for line in classes)


def test_an_archive_of_which_a_part_is_missing_is_not_kept(tmp_path: Path) -> None:
    part = tmp_path / "classes.jsa"
    with ARCHIVE.open("rb") as whole:
        part.write_bytes(whole.read(1_000_000))
    assert works(ARCHIVE)
    assert not works(part)
    assert not works(tmp_path / "none.jsa")


def test_without_an_archive_a_driver_is_told_nothing(tmp_path: Path) -> None:
    assert reading(tmp_path / "classes.jsa") == ""
