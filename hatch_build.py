"""Builds the jar that a gate's plan travels through, for the wheel and for an editable install.

The sources in ``jvm/`` are compiled against the Spark in PySpark's wheel. Users get the jar inside
of Penstock's wheel: they have a Java runtime, and as a rule no compiler.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JAR = Path("src/penstock/spark/penstock.jar")
OLDEST_JAVA = "17"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every entry, so that the same sources give the same jar."""


class JarBuildHook(BuildHookInterface[Any]):
    """Hatch runs it before it packs a wheel, and before an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        if self.target_name == "wheel":
            build(Path(self.root))
            build_data["artifacts"].append(JAR.as_posix())


def build(root: Path) -> Path:
    """Compiles the sources below ``root`` into the jar, and answers where it is."""
    compiler = shutil.which("javac")
    if compiler is None:
        sys.exit(
            "building Penstock needs javac, version 17 or newer, and there is none on the PATH "
            "(Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)"
        )
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        sys.exit("building Penstock needs PySpark, whose jars it is compiled against")
    jars = Path(spark.origin).parent / "jars"
    sources = sorted((root / "jvm").rglob("*.java"))
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", OLDEST_JAVA, "-Xlint:all,-path,-classfile", "-Werror"]
        subprocess.run(
            [compiler, *options, "-cp", f"{jars}/*", "-d", folder, *map(str, sources)], check=True
        )
        pack(Path(folder), root / JAR)
    return root / JAR


def pack(classes: Path, jar: Path) -> None:
    """Writes the compiled classes into a jar, in a fixed order and without the time of day."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), FIXED_TIME)
            file.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    print(build(Path(__file__).parent))
