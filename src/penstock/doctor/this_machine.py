"""What the doctor says of a machine: Python, Java, packages, memory and processors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.doctor.finding import Finding
from penstock.doctor.versions import Requirement, fits, installed_of, java_version

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
LEAST_MEMORY_BYTES = 2 * 2**30
CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
BROUGHT_BY_MANY = "connect"
"""The extra of which parts are often there, and nobody has asked for it."""
SOURCE_OF_EXTRA = "penstock[{}]"


@dataclass(frozen=True)
class MachineFacts:
    """Holds what was found on a machine; None stands for what is not there, or not known."""

    python: tuple[int, int]
    java: str | None
    """What ``java -version`` says."""
    packages: Mapping[str, str | None]
    """The version of each package that Penstock can use."""
    asked: tuple[Requirement, ...]
    """What Penstock asks for."""
    has_jar: bool
    """Whether this Penstock brings the classes that a gate needs in the JVM."""
    memory_bytes: int | None
    """What is free for this process, of the machine or of its container."""
    cores: int
    environment: Mapping[str, str] = field(default_factory=dict)


def machine_findings(facts: MachineFacts) -> Iterator[Finding]:
    """Says what is wrong with a machine, and what is good about it."""
    yield _python(facts)
    yield _java(facts)
    yield from _packages(facts)
    if not facts.has_jar:
        yield Finding(
            "bad",
            "penstock.jar",
            "this Penstock has no classes for the JVM, and no gate works without",
            "install the wheel, or run make setup",
        )
    yield _memory(facts)
    yield from _mode(facts.environment)


def _python(facts: MachineFacts) -> Finding:
    text = ".".join(map(str, facts.python))
    if facts.python < OLDEST_PYTHON:
        return Finding("bad", "Python", text, "use 3.11 or newer")
    return Finding("good", "Python", text)


def _java(facts: MachineFacts) -> Finding:
    wanted = f"install Java {OLDEST_JAVA} or newer, or set JAVA_HOME"
    if facts.java is None:
        return Finding("bad", "Java", "there is none, and Spark needs one", wanted)
    version = java_version(facts.java)
    if version is None:
        first = facts.java.strip().partition("\n")[0]
        return Finding("note", "Java", f"its version is not known: {first!r}", wanted)
    if version < OLDEST_JAVA:
        return Finding("bad", "Java", f"version {version} is too old for Spark", wanted)
    return Finding("good", "Java", f"version {version}")


def _packages(facts: MachineFacts) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for one in facts.asked:
        if (one.name, one.bounds) in told:
            continue  # of two extras
        have = facts.packages.get(one.name)
        if have is None:
            if one.extra and not installed_of(facts.packages, one.extra, facts.asked):
                continue  # nobody has asked for this extra
            if one.extra == BROUGHT_BY_MANY:
                continue  # Spark itself says so, where somebody wants it
            told.add((one.name, one.bounds))
            source = SOURCE_OF_EXTRA.format(one.extra) if one.extra else "penstock"
            yield Finding("bad", one.name, "is missing", f"pip install '{source}'")
            continue
        told.add((one.name, one.bounds))
        if not fits(have, one.bounds):
            change = f"pip install '{one.name}{one.bounds}'"
            yield Finding("bad", one.name, f"{have} is not within {one.bounds}", change)
        else:
            yield Finding("good", one.name, have)
    if facts.packages.get("pyspark") is None:
        yield Finding(
            "note", "pyspark", "is missing: no job can run here", "pip install 'penstock[spark]'"
        )


def _memory(facts: MachineFacts) -> Finding:
    cores = f"{facts.cores} core{'' if facts.cores == 1 else 's'}"
    if facts.memory_bytes is None:
        return Finding("note", "memory", f"what is free is not known; {cores}")
    free = f"{facts.memory_bytes / 2**30:.1f} GB free, {cores}"
    if facts.memory_bytes < LEAST_MEMORY_BYTES:
        change = "a driver takes 1 GB unless told, and its Python workers more: give 2 GB or more"
        return Finding("note", "memory", free, change)
    return Finding("good", "memory", free)


def _mode(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name in CONNECT_VARIABLES:
        if environment.get(name):
            yield Finding(
                "bad",
                name,
                f"is set to {environment[name]!r}, so that Spark begins as a Connect client, and "
                "commands and jobs start a Spark of their own",
                f"unset {name}",
            )
