"""``penstock oracle``: runs the registry of a federation."""

import argparse
from pathlib import Path

from penstock.cli.command_support import USUAL_ORACLE, add_until_eof, installed
from penstock.cli.log_output import add_log, log_to_stderr
from penstock.errors import PenstockError

USUAL_PORT = int(USUAL_ORACLE.rpartition(":")[2])
USUAL_DIRECTORY = Path("oracle")
DESCRIPTION = (
    "Runs the oracle: it hears the heartbeats of sites, ranks sites for new fragments, lists "
    "queries, keeps a history, and shows it all on a page, at its address. Nothing stops when it "
    "is gone. It listens on this machine alone unless told, and beyond it only with tokens."
)
EXAMPLE = """\
examples:

  penstock oracle
  penstock oracle --host 0.0.0.0 --tokens tokens.yaml --certificate oracle.pem --key oracle.key

FILE of --tokens says who may call: names of sites and submitters, each with a token, such as
rome: ${ROME_TOKEN}. What stands in ${...} comes from the environment.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=USUAL_PORT, help=f"0 takes a free one; default: {USUAL_PORT}"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=USUAL_DIRECTORY,
        metavar="DIR",
        help=f"of the history; default: {USUAL_DIRECTORY}",
    )
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="who may call")
    parser.add_argument(
        "--readers",
        action="store_true",
        help="lets whoever gives no token look, at the page and at all figures, and change nothing",
    )
    parser.add_argument("--certificate", metavar="FILE", help="of TLS, as a PEM file")
    parser.add_argument("--key", metavar="FILE", help="of the certificate, as a PEM file")
    add_log(parser)
    add_until_eof(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the oracle until it is stopped."""
    if not 0 <= options.port <= 65535:
        raise PenstockError(
            f"--port must lie between 0 and 65535, such as {USUAL_PORT}; got {options.port}"
        )
    if (options.certificate is None) != (options.key is None):
        raise PenstockError("--certificate must come with --key, such as --key oracle.key")
    log_to_stderr(options.log)
    with installed("federation"):
        from penstock.cli.oracle_runs import OracleOptions, run_oracle
    return run_oracle(
        OracleOptions(
            options.host,
            options.port,
            options.directory,
            options.tokens,
            options.certificate,
            options.key,
            options.until_eof,
            options.readers,
        )
    )
