"""``penstock site``: runs one site of a federation."""

import argparse
from pathlib import Path

from penstock.cli.command_support import add_until_eof, installed
from penstock.cli.log_output import add_log, log_to_stderr

DESCRIPTION = (
    "Runs a site: one Spark, the queries of its own file, and the fragments that it is asked to "
    "run. It decides alone what it admits, by what its file lends and refuses. Stops on Ctrl-C or "
    "a signal to terminate; started again, it goes on where it was. Exit codes: 2 the file is "
    "wrong, 130 Ctrl-C, 143 terminated."
)
EXAMPLE = """\
examples:

  penstock check examples/federation/rome.yaml
  penstock site examples/federation/rome.yaml

Tokens stand in the file as ${NAME}, and come from the environment. docs/federation.md has all keys.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("site", type=Path, metavar="SITE.yaml")
    add_log(parser)
    add_until_eof(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the site until it is stopped."""
    log_to_stderr(options.log)
    with installed("spark,federation"):
        from penstock.cli.site_runs import run_site_file
    return run_site_file(options.site, options.until_eof)
