"""The gate's core tests once more, with executors that share no memory with the driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CORE = [
    "test_counts_are_exact_and_each_plan_is_in_force_in_its_own_batch",
    "test_a_gate_of_one_stratum_switches_between_open_and_shut",
    "test_a_batch_that_is_run_again_is_decided_alike",
]


@pytest.mark.spark
def test_the_gate_on_executors_of_their_own() -> None:
    environment = {
        **os.environ,
        "PENSTOCK_TEST_MASTER": "local-cluster[2,1,1024]",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    tests = [f"tests/spark/test_gate.py::{name}" for name in CORE]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert f"{len(CORE)} passed" in done.stdout
