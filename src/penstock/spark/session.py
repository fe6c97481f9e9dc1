"""A quiet Spark of its own for a command, that leaves nothing behind.

Everything that Spark writes goes into one temporary directory, what it says into a log there.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark.engine import launch, shut_down

MOST_CORES = 4


def cores() -> int:
    return min(len(os.sched_getaffinity(0)), MOST_CORES)


def check_java() -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise PenstockError("Spark needs Java 17 or newer, and there is none on the PATH")


@contextmanager
def workspace(command: str) -> Iterator[Path]:
    """A temporary directory that is gone afterwards; after a failure the log is kept."""
    directory = Path(tempfile.mkdtemp(prefix=f"penstock-{command}-"))
    log = directory / "spark.log"
    try:
        with _standard_error_into(log):
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
def _standard_error_into(log: Path) -> Iterator[None]:
    """Also of the JVM and the Python workers, which inherit the descriptor."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


@contextmanager
def session(
    directory: Path, command: str, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Spark on this machine, unless told otherwise; when it ends, so do the JVM and all workers."""
    # Spark starts its workers with the `python3` of the PATH, which may not know this package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield launch({**_quiet(directory, command), **(settings or {})})
    finally:
        shut_down()


@contextmanager
def borrowed(command: str) -> Iterator[SparkSession]:
    """The session that is there already, or one of its own."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    check_java()
    with workspace(command) as directory, session(directory, command) as own:
        yield own


def _quiet(directory: Path, command: str) -> dict[str, str]:
    java = f"-Djava.io.tmpdir={directory} -Dderby.system.home={directory} -XX:-UsePerfData"
    return {
        "spark.master": f"local[{cores()}]",
        "spark.app.name": f"penstock-{command}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.stopTimeout": "10s",
    }
