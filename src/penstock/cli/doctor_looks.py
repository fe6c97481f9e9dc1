"""Finds out what the doctor judges by: it asks the machine, and reads the files."""

import errno
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.doctor.finding import Finding
from penstock.doctor.this_machine import MachineFacts, machine_findings
from penstock.doctor.versions import Requirement, requirements
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.doctor.job_settings import PlannedJob
    from penstock.doctor.site_safety import PlannedSite

JAR = Path(penstock.__path__[0]) / "spark" / "penstock.jar"
MEMORY = Path("/proc/meminfo")
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
JAVA_SECONDS = 20.0
ANSWER_SECONDS = 2.0


def findings(files: Sequence[Path]) -> list[Finding]:
    """Answers all that there is to say of this machine and these files."""
    facts = facts_of_machine()
    found = list(machine_findings(facts))
    if not files:
        return found
    if find_spec("sqlglot") is None:
        change = "pip install 'penstock[spark]'"
        return [*found, Finding("bad", "files", "reading their SQL needs sqlglot", change)]
    return [*found, *_of_files(files, facts)]


def facts_of_machine() -> MachineFacts:
    """Asks the machine; nothing is started but ``java -version``."""
    asked = _asked()
    return MachineFacts(
        sys.version_info[:2],
        _java(),
        {one.name: _version(one.name) for one in asked},
        asked,
        JAR.exists(),
        _free_memory(),
        len(os.sched_getaffinity(0)),
        os.environ,
    )


def _asked() -> tuple[Requirement, ...]:
    try:
        return tuple(requirements(requires("penstock") or ()))
    except PackageNotFoundError:  # it runs from a directory, and nobody has installed it
        return ()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java() -> str | None:
    """Answers what Java says of itself: the one that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout


def _free_memory() -> int | None:
    """Answers what this process could have: of the machine, or of its container if that is less."""
    try:
        told = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
        free = int(told["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None
    try:
        return min(free, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # it has no limit, or is in no container
        return free


def _of_files(files: Sequence[Path], facts: MachineFacts) -> Iterator[Finding]:
    """Reads the files; one that cannot be read is a finding like others."""
    from penstock.cli.file_kinds import sorted_by_kind
    from penstock.doctor.job_settings import job_findings
    from penstock.doctor.site_safety import site_findings
    from penstock.federation.query_file import load_query

    sites: list[PlannedSite] = []
    for file in files:
        try:
            jobs, of_sites, queries = sorted_by_kind([file])
            for path in queries:
                load_query(path)
            planned = [*map(_job, jobs), *(_site(path, sites) for path in of_sites)]
        except PenstockError as error:
            yield Finding("bad", "file", str(error))
            continue
        yield Finding("good", str(file), "can be read")
        for job in planned:
            pyspark = facts.packages.get("pyspark")
            yield from job_findings(job, pyspark, facts.cores, facts.memory_bytes)
    yield from site_findings(sites)


def _job(path: Path) -> "PlannedJob":
    """Reads a job file."""
    from penstock.doctor.job_settings import PlannedJob
    from penstock.jobs.load import load

    loaded = load(path)
    job, kept = loaded.job, loaded.job.checkpoint is not None
    times = job.interval, job.latency
    return PlannedJob(str(path), *times, kept, job.spark, job.sources, job.queries, loaded.queries)


def _site(path: Path, sites: "list[PlannedSite]") -> "PlannedJob":
    """Reads the file of a site, notes it among the sites, and answers its own queries."""
    from penstock.doctor.job_settings import PlannedJob
    from penstock.doctor.site_safety import PlannedSite
    from penstock.federation.site_file import load_site
    from penstock.jobs.load import prepared
    from penstock.jobs.model import JobFile

    site, document = load_site(path)
    sites.append(_surroundings(PlannedSite(str(path), site)))
    own = {}
    if site.queries:
        job = JobFile(sources=site.sources, queries=site.queries)
        own = dict(prepared(job, document).queries)
    times = site.interval, site.latency
    return PlannedJob(str(path), *times, True, site.spark, site.sources, site.queries, own)


def _surroundings(site: "PlannedSite") -> "PlannedSite":
    """Finds out whether the port of a site is free, and whether its oracle answers."""
    file = site.file
    oracle = None if file.oracle is None else _answers(f"{file.oracle}/health")
    taken = bool(file.port) and not _is_free(file.host, file.port)
    return replace(site, port_taken=taken, oracle_answers=oracle)


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return True
    except OSError as error:
        return error.errno != errno.EADDRINUSE


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS):
            return True
    except OSError:
        return False
