"""``penstock prepare``: lets the Spark that other commands start begin sooner."""

import argparse

DESCRIPTION = (
    "Runs a short job on Spark, and has its JVM write down the classes that it has loaded, some "
    "200 MB, into this environment. Commands that start Spark (demo, run, up, site, bench) then "
    "begin in about two thirds of the time, and their JVMs share that memory. Takes half a minute, "
    "and is to be done again after another Java or another Spark was installed; until then they "
    "start as without it."
)
EXAMPLE = """\
example:

  penstock prepare
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the description and an example; there are no arguments."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(options: argparse.Namespace) -> int:
    """Writes the archive, and says where it is."""
    del options
    from penstock.cli.prepare import prepare

    archive = prepare()
    print(f"wrote {archive} ({archive.stat().st_size / 1e6:.0f} MB)")
    return 0
