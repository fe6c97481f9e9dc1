"""A link over Kafka: what is sent arrives as it was, and once, also where a batch runs again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.lab.field.broker import Broker

JOB = Path(__file__).with_name("kafka_link_job.py")


def test_rows_arrive_once_and_as_they_were(broker: Broker) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[1] --jars {broker.jars.connector} "
        "--conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 "
        "--conf spark.sql.shuffle.partitions=1 pyspark-shell",
    }
    done = subprocess.run(
        [sys.executable, str(JOB), broker.address],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "equal True\nrows 20\n" in done.stdout, done.stdout
