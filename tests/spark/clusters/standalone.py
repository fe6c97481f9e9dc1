"""A Spark standalone cluster of one's own: a master and workers, on free ports of the loopback.

Every process has a folder of its own to work in, and a group of its own, and ends by its id. The
workers share nothing with the driver but the network, the installed packages and what lies below a
folder that both know.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from penstock.lab.field.child import dies_with_us
from tests.spark.support import QUICK, began_with, wait_until

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[3]
LONGEST_START_SECONDS = 120.0
MARK = "PENSTOCK_WORKER"
"""The variable by which the processes of a worker are known, whoever started them."""
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")


def processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


class Standalone:
    """Is a running cluster; ``kill`` takes a worker away, with its executors."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._run("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
            wait_until(lambda: STARTED.search(self.said("master")), LONGEST_START_SECONDS)
            for number in range(workers):
                self._worker(f"worker-{number}")
            for number in range(workers):
                self._wait(f"worker-{number}")
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        found = STARTED.search(self.said("master"))
        assert found is not None
        return found[1]

    def _worker(self, name: str) -> None:
        options = [
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            str(self._folder / name / "work"),
        ]
        self._run(name, "worker.Worker", "--host", "127.0.0.1", *options, self.url)

    def _wait(self, name: str) -> None:
        wait_until(
            lambda: "Successfully registered with master" in self.said(name),
            LONGEST_START_SECONDS,
            f"{name}: {self.said(name)[-2000:]}",
        )

    def kill(self, name: str) -> None:
        """Ends a worker and its executors, with their Python, as a power cut does."""
        worker = self._processes.pop(name)
        mark = self._mark(name)
        for process in [worker.pid, *(int(p.name) for p in processes() if mark in began_with(p))]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        worker.wait()

    def worker_of(self, executor: int) -> str:
        """The name of the worker that started a process."""
        variables = began_with(Path("/proc") / str(executor))
        return next(name for name in self._processes if self._mark(name) in variables)

    def _mark(self, name: str) -> bytes:
        return f"{MARK}={self._folder / name}".encode()

    def said(self, name: str) -> str:
        log = self._folder / f"{name}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def stop(self) -> None:
        """Ends all processes."""
        for name in list(self._processes):
            self.kill(name)

    def _run(self, name: str, main: str, *arguments: str) -> None:
        folder = self._folder / name
        folder.mkdir()
        java = shutil.which("java") or str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
        options = [*QUICK.split(), "-Xmx256m", "-XX:-UsePerfData"]
        command = [*dies_with_us(), java, *options, "-cp", f"{HOME / 'jars'}/*"]
        command += [f"org.apache.spark.deploy.{main}", *arguments, "--webui-port", "0"]
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "src"),
            MARK: str(folder),
            "TMPDIR": str(folder),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
