"""The guide to Kafka: its program runs as printed, and the ledger is what the offsets say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.lab.field.broker import Broker
from penstock.lab.field.driver_killed import run
from penstock.lab.field.field_truth import committed
from penstock.lab.field.stand import FieldOptions, Stand
from tests.test_printed_programs import ROOT, blocks

GUIDE = ROOT / "docs" / "kafka.md"


def test_the_program_of_the_guide_runs_and_its_ledger_equals_the_offsets(
    broker: Broker, tmp_path: Path
) -> None:
    """With the connector that the tests have fetched, where a user names the package."""
    stand, (program,) = Stand(broker, tmp_path), blocks(GUIDE, "python")
    (tmp_path / "program.py").write_text(program)
    topic, directory = stand.topic(), tmp_path / "fares"
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] --jars {broker.jars.connector} "
        "--conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 pyspark-shell",
    }
    with stand.feed(topic, (0.0, 2000.0)):
        done = subprocess.run(
            [sys.executable, "program.py", broker.address, topic, str(directory)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"QueryReport\(id='fares', arrived=[1-9]", done.stdout), done.stdout
    told = re.search(r"ledger \((\d+), (\d+), (\d+)\)", done.stdout)
    assert told is not None, done.stdout
    arrived, admitted, shed = map(int, told.groups())
    assert arrived == admitted + shed == committed(directory / "checkpoint")[1]
    assert list((directory / "results").glob("*.parquet"))


def test_the_ledger_equals_the_offsets_across_a_kill_of_the_driver(
    broker: Broker, tmp_path: Path
) -> None:
    """Law 1 on Kafka: no batch is missing from the two lives, and none is there twice."""
    (told,) = run(Stand(broker, tmp_path), FieldOptions(1, 6.0))["runs"]
    assert told["unaccounted"] == 0
    assert told["ledger_balanced"]
    assert told["batches_missing"] == 0
    assert told["before"]
    assert told["after"]
