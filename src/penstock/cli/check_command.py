"""``penstock check``: says what is wrong with files of jobs, sites and queries."""

import argparse
from pathlib import Path

from penstock.cli.command_support import USUAL_TOKEN_VARIABLE, installed

DESCRIPTION = (
    "Reads a job file, a site file or the file of a federated query, then has Spark look at its "
    "queries without starting them, since only Spark knows the columns. Says of a federated query "
    "which fragments it is cut into, where they run, and what cannot be split. Exit code 2 and "
    "one message if something is wrong."
)
EXAMPLE = """\
examples:

  penstock check examples/avg.yaml
  penstock check examples/federation/cov.yaml examples/federation/{rome,oslo,kyoto}.yaml
  penstock check examples/federation/cov.yaml --oracle http://127.0.0.1:7100

What a federated query reads is described by the files of its sites, or by the oracle of those that
run. Without either, only its form is checked.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.yaml")
    parser.add_argument("--oracle", metavar="URL", help="that knows what the sites lend")
    parser.add_argument("--token-env", default=USUAL_TOKEN_VARIABLE, metavar="NAME")
    parser.add_argument("--authority", metavar="FILE", help="whose TLS certificates are believed")


def run(options: argparse.Namespace) -> int:
    """Checks the files, each by what it is."""
    with installed("spark"):
        from penstock.cli.file_kinds import sorted_by_kind
        from penstock.cli.run import check
    jobs, sites, queries = sorted_by_kind(options.files)
    if sites or queries:
        with installed("spark,federation"):
            from penstock.cli.check_federation import check_federation
        check_federation(sites, queries, options)
    for job in jobs:
        check(job)
    return 0
