"""Starts a quiet Spark for a command, and leaves nothing behind.

Everything that Spark writes goes into one temporary directory, and what it says into a log there.
"""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark.class_archive import reading
from penstock.spark.engine import JVM_EXIT_SECONDS, launch, shut_down

MOST_LOCAL_CORES = 4
"""The cores that a command uses at most, so that it leaves some of a large machine free."""


def cores() -> int:
    """Returns how many cores a session of its own uses."""
    return min(len(os.sched_getaffinity(0)), MOST_LOCAL_CORES)


def check_java() -> None:
    """Raises an error where Spark would not find Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise PenstockError("Spark needs Java 17 or newer, and there is none on the PATH")


@contextmanager
def workspace(command: str, *, warns: bool = False) -> Iterator[Path]:
    """Makes a temporary directory and removes it afterwards; after a failure it keeps the log.

    Where it ``warns``, what Penstock itself logs goes on to standard error.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"penstock-{command}-"))
    log = directory / "spark.log"
    try:
        with _standard_error_into(log, warns):
            yield directory
    except Exception as error:
        kept = directory.with_suffix(".log")
        shutil.move(log, kept)
        reason = str(error).strip().partition("\n")[0]
        if not isinstance(error, PenstockError):
            reason = f"{type(error).__name__}: {reason}"
        raise PenstockError(f"{reason}\n  what Spark said is in {kept}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _standard_error_into(log: Path, warns: bool) -> Iterator[None]:
    """Sends the errors of this process, the JVM and the Python workers into a log.

    The JVM and the workers inherit the descriptor.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    try:
        with _own_log_to(terminal) if warns else nullcontext():
            yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


@contextmanager
def _own_log_to(terminal: int) -> Iterator[None]:
    """Has Penstock's own log written where standard error was, and not among Spark's words."""
    logger = logging.getLogger("penstock")
    with os.fdopen(os.dup(terminal), "w", buffering=1) as seen:
        told = [
            handler
            for handler in logger.handlers
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
        ]
        added = logging.StreamHandler(seen)
        added.setLevel(logging.WARNING)
        for handler in told:
            handler.setStream(seen)
        if not logger.hasHandlers():  # then Python writes warnings to standard error by itself
            logger.addHandler(added)
        try:
            yield
        finally:
            logger.removeHandler(added)
            for handler in told:
                handler.setStream(sys.stderr)


@contextmanager
def session(
    directory: Path,
    command: str,
    settings: Mapping[str, str] | None = None,
    exit_seconds: float = JVM_EXIT_SECONDS,
) -> Iterator[SparkSession]:
    """Starts Spark and ends it with its workers; it runs on this machine unless settings differ."""
    own = {**_quiet(directory, command), **(settings or {})}
    if own["spark.master"].startswith("local"):
        own = {**_loopback(directory), **own}
        # Spark starts its workers with the `python3` of the PATH, which may not know this package.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ["PYSPARK_PYTHON"] = python_of_workers(own)
    try:
        yield launch(own)
    finally:
        shut_down(exit_seconds)


@contextmanager
def borrowed(command: str) -> Iterator[SparkSession]:
    """Gives the session that is active, or starts one for the time."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    check_java()
    with workspace(command) as directory, session(directory, command) as own:
        yield own


def python_of_workers(settings: Mapping[str, str]) -> str:
    """Returns the Python of a cluster's machines: as they are told, or that of this one."""
    told = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return told or sys.executable


def _loopback(directory: Path) -> dict[str, str]:
    """Says where a Spark of this machine alone is; other machines would not find it."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory),
    }


def _quiet(directory: Path, command: str) -> dict[str, str]:
    java = (
        f"-Djava.io.tmpdir={directory} -Dderby.system.home={directory} -XX:-UsePerfData {reading()}"
    )
    return {
        "spark.master": f"local[{cores()}]",
        "spark.app.name": f"penstock-{command}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": java,
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.stopTimeout": "10s",
    }
