"""Lets JVMs that Penstock starts begin sooner: with Spark's classes out of an archive.

A JVM that has just started spends most of its first seconds on reading, checking and linking some
ten thousand classes of Spark. Java can write them down as it has them in memory (class data
sharing, JEP 350); other JVMs then map that file, and share it. ``penstock prepare`` writes it, and
so does the set-up. A JVM of another Java, or with other jars, does without it.
"""

import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix, "share", "penstock", "classes.jsa")
"""It belongs to the environment, as the jars do whose classes are in it."""


def reading(archive: Path = ARCHIVE) -> str:
    """Returns what a JVM has to be told to use the archive; nothing where there is none.

    A JVM that cannot use it would say so on its standard output, where results may stand.
    """
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds*=off" if archive.exists() else ""


def writing(archive: Path) -> str:
    """Returns what a JVM has to be told to write the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds*=off"
