"""``penstock doctor``: looks at a machine and at files, and says what to change."""

import argparse
import json
from pathlib import Path

BAD_EXIT_CODE = 1
"""The exit code where something does not work as it is."""
DESCRIPTION = (
    "Looks at Python, Java, memory and the versions of packages on this machine, and at files of "
    "jobs and sites: settings of Spark that hurt, connectors that do not fit, read limits, missing "
    "watermarks, triggers that leave no time; tokens and ports of a federation. One line for each, "
    "with what to change. It starts nothing. Exit codes: 0 nothing is bad, 1 something is, 2 an "
    "option is wrong."
)
EXAMPLE = """\
examples:

  penstock doctor
  penstock doctor examples/avg.yaml
  penstock doctor examples/federation/{rome,oslo,kyoto}.yaml --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "files", type=Path, nargs="*", metavar="FILE.yaml", help="of jobs, sites and queries"
    )
    parser.add_argument("--all", action="store_true", help="says what is good, too")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(options: argparse.Namespace) -> int:
    """Looks at everything, and says what it has found."""
    from penstock.cli.doctor_looks import findings

    found = findings(options.files)
    if options.json:
        print(json.dumps([finding.to_dict() for finding in found], indent=1))
    else:
        shown = [finding for finding in found if options.all or finding.level != "good"]
        good = sum(finding.level == "good" for finding in found)
        lines = [finding.line() for finding in shown]
        print("\n".join([*lines, f"{good} good, {len(found) - good} to look at"]))
    return BAD_EXIT_CODE if any(finding.level == "bad" for finding in found) else 0
