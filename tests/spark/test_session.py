"""The session of a command: where it runs, and what it tells a cluster about this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.spark import session as module


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The settings with which Spark would have been started."""
    found: list[dict[str, str]] = []
    monkeypatch.setattr(module, "launch", lambda settings, *_: found.append(dict(settings)))
    monkeypatch.setattr(module, "shut_down", lambda *_: None)
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    return found


def test_on_this_machine_nothing_is_open_to_others(
    launched: list[dict[str, str]], tmp_path: Path
) -> None:
    for master in (None, "local[2]", "local-cluster[2,1,1024]"):
        with module.session(tmp_path, "run", {"spark.master": master} if master else None):
            assert os.environ["PYSPARK_PYTHON"] == sys.executable
        assert launched[-1]["spark.driver.host"] == "127.0.0.1"
        assert launched[-1]["spark.local.dir"] == str(tmp_path)


def test_a_cluster_is_not_told_that_the_driver_is_on_its_own_loopback(
    launched: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor that executors have the driver's directories, or its Python where they have another."""
    master = {"spark.master": "spark://host:7077"}
    for settings, python in (
        (master, sys.executable),
        (
            {**master, "spark.pyspark.python": "/opt/penstock/bin/python"},
            "/opt/penstock/bin/python",
        ),
    ):
        with module.session(tmp_path, "run", settings):
            assert os.environ["PYSPARK_PYTHON"] == python
        monkeypatch.setenv("PYSPARK_PYTHON", "")
        its = launched[-1]
        assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"} & set(its)
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.11")
    own = {**master, "spark.driver.host": "10.0.0.7"}
    with module.session(tmp_path, "run", own):
        assert os.environ["PYSPARK_PYTHON"] == "python3.11"
    assert launched[-1]["spark.driver.host"] == "10.0.0.7"
