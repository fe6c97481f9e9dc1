"""On clusters: results and ledgers are those of one machine, also where a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lab.field.child import dies_with_us
from tests.spark.clusters.features import FEATURES, Place
from tests.spark.clusters.program import KILLED
from tests.spark.clusters.standalone import ROOT, Standalone
from tests.spark.clusters.table import GOOD, KINDS, judged, publish, published
from tests.spark.support import wait_until

LONGEST_RUN_SECONDS = 400.0
LOCAL_CLUSTER = "local-cluster[2,1,1024]"


class Tried:
    """Is a program that tries all features on a cluster, and takes a worker away in the last."""

    def __init__(self, folder: Path, master: str, cluster: Standalone | None) -> None:
        self._cluster, self._shared = cluster, folder / "shared"
        own = folder / "driver"
        for each in (self._shared, own, own / "tmp"):
            each.mkdir(parents=True)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": "/proc/self/cwd/tmp",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        python = [*dies_with_us(), sys.executable]
        command = [*python, "-m", "tests.spark.clusters.program", master]
        self._log = folder / "program.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self._shared), *FEATURES, KILLED],
                cwd=own,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def answers(self) -> dict[str, Any]:
        """What the program found out, once it has ended."""
        reached, gone = self._shared / "reached", self._shared / "gone"
        wait_until(lambda: self._ended() or _written(reached), LONGEST_RUN_SECONDS, self.said())
        if _written(reached):
            executor = int(reached.read_text())
            if self._cluster is None:
                os.kill(executor, signal.SIGKILL)
            else:
                self._cluster.kill(self._cluster.worker_of(executor))
            gone.touch()
        wait_until(self._ended, LONGEST_RUN_SECONDS, self.said())
        assert self.process.returncode == 0, self.said()
        told: dict[str, Any] = json.loads((self._shared / "told.json").read_text())
        return told

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def end(self) -> None:
        if not self._ended():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _written(file: Path) -> bool:
    return file.exists() and file.read_text() != ""


@pytest.mark.long
@pytest.mark.timeout(4 * LONGEST_RUN_SECONDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_cluster_gives_is_what_one_machine_gives(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Laws 1, 6 and 8 on executors of their own: which rows there are, and what the ledger says."""
    with ExitStack() as running:
        master, cluster = LOCAL_CLUSTER, None
        if kind == "standalone":
            cluster = running.enter_context(Standalone(tmp_path / "cluster"))
            master = cluster.url
        tried = Tried(tmp_path / kind, master, cluster)
        running.callback(tried.end)
        wanted = on_one_machine(spark, tmp_path / "one")
        answers = tried.answers()
    for name, answer in answers.items():
        same = answer.get("found") == wanted[name]
        print(name, {**answer, "found": same or answer.get("found")})
    written = {path.name for path in (tmp_path / "cluster").glob("worker-*/work/*/*/*")}
    if cluster is not None:
        assert {name for name in written if not name.endswith(".jar")} == {"stdout", "stderr"}
    cells = judged(answers, wanted)
    if os.environ.get("PENSTOCK_TABLES") == "1":
        publish(kind, cells)
    assert set(cells.values()) == {GOOD}, cells
    assert cells == published(kind)


def on_one_machine(spark: SparkSession, folder: Path) -> dict[str, object]:
    found = {}
    for name, feature in FEATURES.items():
        place = Place(folder / name / "shared", folder / name / "own")
        for each in (place.shared, place.own):
            each.mkdir(parents=True)
        found[name] = json.loads(json.dumps(feature(spark, place)))
    return found | {KILLED: found["windows"]}
