"""Fetches a Kafka broker, Spark's connector, and Delta by their Maven coordinates, once a machine.

The coordinates stand in the ``pom.xml`` files beside this one. What they lead to is kept in
``$PENSTOCK_CACHE``, or in ``~/.cache/penstock``. A folder of the cache is whole or not there: it is
filled under another name, and one process at a time fills it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from penstock.errors import PenstockError

PARTS = ("broker", "connector")
DELTA = "delta"
LONGEST_DOWNLOAD_SECONDS = 600
LINES_OF_MAVEN_SHOWN = 12


@dataclass(frozen=True)
class Jars:
    """Says where the jars are: one folder for the broker, one for Spark's connector."""

    folder: Path

    @property
    def broker(self) -> str:
        """Returns the class path of the broker."""
        return f"{self.folder / 'broker'}/*"

    @property
    def connector(self) -> str:
        """Returns what to set ``spark.jars`` to."""
        return ",".join(str(path) for path in sorted((self.folder / "connector").glob("*.jar")))


def cache() -> Path:
    """Returns the folder of the cache in which these versions are, or will be."""
    home = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    poms = {part: _pom(part) for part in PARTS}
    kafka = _version("kafka_2.13", poms["broker"])
    spark = _version("spark-sql-kafka-0-10_2.13", poms["connector"])
    digest = hashlib.sha256("".join(poms.values()).encode()).hexdigest()[:8]
    return Path(home).expanduser().absolute() / f"kafka-{kafka}-spark-{spark}-{digest}"


def fetched() -> Jars:
    """Returns the jars, and downloads them first where they are not in the cache."""
    return Jars(_kept(cache(), PARTS))


def delta() -> str:
    """Returns what to set ``spark.jars`` to for Delta, which is downloaded where it is missing."""
    pom = _pom(DELTA)
    digest = hashlib.sha256(pom.encode()).hexdigest()[:8]
    version = _version("delta-spark_4.2_2.13", pom)
    folder = _kept(cache().parent / f"delta-{version}-{digest}", (DELTA,))
    return ",".join(str(path) for path in sorted((folder / DELTA).glob("*.jar")))


def _kept(folder: Path, parts: Sequence[str]) -> Path:
    """Returns a folder of the cache, and fills it first where it is not there."""
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.with_suffix(".lock")):
                if not folder.exists():
                    _download(folder, parts)
        except OSError as error:
            raise PenstockError(
                f"the jars cannot be kept in {folder}: {error}; "
                "set PENSTOCK_CACHE to a folder that can be written"
            ) from None
    return folder


def _pom(part: str) -> str:
    return files(__package__).joinpath(f"{part}.pom.xml").read_text()


def _version(artifact: str, pom: str) -> str:
    found = re.search(rf"<artifactId>{re.escape(artifact)}</artifactId>\s*<version>([^<]+)", pom)
    assert found is not None, artifact
    return found[1]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Waits until no other process is inside; the lock ends with the process that holds it."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(folder: Path, parts: Sequence[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PenstockError(
            f"the jars are not in {folder}, and there is no mvn on the PATH to fetch them with "
            "(Debian, Ubuntu: apt-get install maven)"
        )
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        for part in parts:
            _copy_dependencies(maven, part, unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _copy_dependencies(maven: str, part: str, folder: Path) -> None:
    pom = folder / f"{part}.pom.xml"  # not the package's own, whose folder may be read-only
    pom.write_text(_pom(part))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder / part}"],
            capture_output=True,
            text=True,
            timeout=LONGEST_DOWNLOAD_SECONDS,
            check=False,
        )
        said, failed = done.stdout + done.stderr, done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = f"no end after {LONGEST_DOWNLOAD_SECONDS} s", True
    if failed:
        last = "\n  ".join(said.strip().splitlines()[-LINES_OF_MAVEN_SHOWN:])
        raise PenstockError(
            f"Maven cannot fetch the jars of the {part} into {folder.parent}: see that it reaches "
            f"a registry (~/.m2/settings.xml), and try again. It said:\n  {last}"
        )
