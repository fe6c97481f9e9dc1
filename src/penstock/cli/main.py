"""The command line: parse, call, print."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock import __version__
from penstock.errors import PenstockError
from penstock.hints import hint

_PLAN_EXAMPLE = """\
example: capacity for 10 tuples, two queries that want 20 and 40

  penstock plan <<'END'
  {"capacity": 10,
   "queries": [{"id": "q1", "strata": [{"id": "s1", "tuples": 20, "sic": 0.05}]},
               {"id": "q2", "strata": [{"id": "s1", "tuples": 40, "sic": 0.025}]}]}
  END

Both are lifted to the same SIC: q1 keeps 3.3 tuples and q2 keeps 6.7.
A query may have "sic" (where it stands, default 0), "weight" (1), "floor" (0: the SIC it is
promised) and "ceiling" (none); a stratum has "tuples", "sic" and "cost" (1) of one tuple.
"""

_DEMO_EXAMPLE = """\
examples:

  penstock demo                                  in full, under three minutes
  penstock demo --seconds 15 --json figures.json shorter, with all figures in a file

The stream comes at multiples of what this machine turns out to manage, so any machine is in the
same trouble. Ctrl-C ends it; where the output is no terminal it prints a line a second.
"""

_SIMULATE_EXAMPLE = """\
examples:

  penstock simulate examples/scenarios/federation.yaml
  penstock simulate examples/scenarios/federation.yaml --json --plot pictures/
  penstock simulate examples/scenarios/planning.yaml --what-if queries=30:300:10 --at-least 0.5
  penstock simulate examples/scenarios/planning.yaml --what-if sites=4:24:6 --at-least 0.5

A scenario is a YAML file: sites with capacities, queries of some kinds cut into fragments, how
they are placed, what sources send, and what fails. docs/simulator.md has every key.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; bad input is one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except PenstockError as error:
        print(f"penstock {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody left to tell
        return 141
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Keeps Spark Structured Streaming jobs fresh under overload: admits the tuples "
        "that matter most, sheds the rest fairly, and says how complete every result is.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    plan = commands.add_parser(
        "plan",
        help="one allocation: what would be kept of these demands",
        description="Reads demands as JSON and answers which share of each stratum a policy "
        "would keep. It shows the bare policy: no headroom, no exploration, no rounding.",
        epilog=_PLAN_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("file", nargs="?", default="-", help="the demands (default: standard input)")
    plan.add_argument(
        "--policy",
        metavar="P",
        help="uniform, balance-sic (default), max-min, ...; over the file's",
    )
    plan.set_defaults(run=_plan)
    demo = commands.add_parser(
        "demo",
        help="an overloaded stream through one job, without and with Penstock",
        description="Runs a stream with bursts through one Spark job twice, without and with "
        "Penstock, and compares latency, completeness and errors against the exact answer. "
        "Needs nothing but Java.",
        epilog=_DEMO_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    demo.add_argument("--seconds", type=float, metavar="N", help="of each run (default: about 40)")
    demo.add_argument("--json", type=Path, metavar="FILE", help="where to write all figures")
    demo.set_defaults(run=_demo)
    run = commands.add_parser(
        "run",
        help="runs a job file until it is stopped, and reports",
        description="Runs the queries of a job file on one site. Stops on Ctrl-C, on a signal to "
        "terminate, or after --seconds. Exit codes: 0 done, 1 a query failed, 2 the job or an "
        "option is wrong, 130 Ctrl-C, 143 terminated.",
        epilog="example: penstock run examples/avg.yaml --seconds 30 --report report.json",
    )
    run.add_argument("job", type=Path, metavar="JOB.yaml")
    run.add_argument("--seconds", type=float, metavar="N", help="stop after so long")
    run.add_argument("--report", type=Path, metavar="R.json", help="where to write the report")
    run.set_defaults(run=_run)
    check = commands.add_parser(
        "check",
        help="says what is wrong with a job file",
        description="Reads a job file, then has Spark look at its queries without starting them, "
        "since only Spark knows the columns. Exit code 2 and one message if something is wrong.",
    )
    check.add_argument("job", type=Path, metavar="JOB.yaml")
    check.set_defaults(run=_check)
    bench = commands.add_parser(
        "bench",
        help="measures the gate on this machine, on real Spark",
        description="Measures what gate and guard promise. Of the gate: latency, capacity, burst, "
        "transparent, fair, jobs, truthful, coverage, groups; of the guard: guard-classes, "
        "guard-measured, guard-fair, guard-overhead. Rates follow from what this machine can do; "
        "each line under 'holds' says whether a promise held; if one does not, the exit code is 1.",
        epilog="example: penstock bench latency burst --json results/",
    )
    bench.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    bench.add_argument("--seconds", type=float, default=90.0, help="length of the main runs")
    bench.add_argument("--json", type=Path, metavar="DIR", help="keep every figure here")
    bench.set_defaults(run=_bench)
    simulate = commands.add_parser(
        "simulate",
        help="a federation of sites in simulation, and what-if questions about it",
        description="Runs a scenario with the same controller and policies as on Spark, and says "
        "how complete every query's results are and how fairly the loss is shared.",
        epilog=_SIMULATE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("scenario", type=Path, metavar="SCENARIO.yaml")
    simulate.add_argument("--json", action="store_true", help="all figures, as JSON")
    simulate.add_argument("--plot", type=Path, metavar="DIR", help="draw pictures into DIR")
    simulate.add_argument(
        "--what-if",
        metavar="DIAL=FROM:TO[:POINTS]",
        help="sweep queries, sites, capacity or rate instead of one run",
    )
    simulate.add_argument(
        "--at-least", type=_share, metavar="SIC", help="with --what-if: find where this is reached"
    )
    simulate.set_defaults(run=_simulate)
    reproduce = commands.add_parser(
        "reproduce",
        help="figures and tables of the papers, on this machine",
        description="Runs experiments of the papers that Penstock builds on and prints their "
        "tables; without a name it lists them. Each line 'holds' is a claim that was seen to hold; "
        "if one does not, the exit code is 1.",
        epilog="example: penstock reproduce las --effort 0.1 --out results/",
    )
    reproduce.add_argument("names", nargs="*", metavar="NAME", help="which (default: list them)")
    reproduce.add_argument(
        "--effort",
        type=_share,
        default=1.0,
        metavar="E",
        help="between 0 (seconds, shows that it runs) and 1 (what the results page shows)",
    )
    reproduce.add_argument("--out", type=Path, metavar="DIR", help="page, plots and JSON go here")
    reproduce.set_defaults(run=_reproduce)
    return parser


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"a number between 0 and 1, not {text!r}")
    return value


def _bench(options: argparse.Namespace) -> int:
    with _installed("spark,experiments"):
        from penstock.lab.bench.command import BENCHES, run
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        raise PenstockError(f"unknown benchmark {unknown[0]!r}: {hint(unknown[0], BENCHES)}")
    return 0 if run(options.names or list(BENCHES), options.seconds, options.json) else 1


def _simulate(options: argparse.Namespace) -> int:
    with _installed("experiments"):
        from penstock.cli.simulate import simulate, what_if
    if options.what_if is not None:
        what_if(options.scenario, options.what_if, options.at_least, options.json, options.plot)
    elif options.at_least is not None:
        raise PenstockError("--at-least asks about a sweep: give --what-if, too")
    else:
        simulate(options.scenario, options.json, options.plot)
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    with _installed("spark,experiments"):
        from penstock.lab.reproduce import listing, reproduce
    if not options.names:
        print(listing())
        return 0
    return 0 if reproduce(options.names, options.effort, options.out) else 1


def _plan(options: argparse.Namespace) -> int:
    from penstock.cli.plan import allocate

    try:
        if options.file == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            text = Path(options.file).read_text()
    except OSError as error:
        raise PenstockError(f"{options.file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PenstockError(f"{options.file}: this is not text in UTF-8") from None
    print(json.dumps(allocate(text, options.policy), indent=2))
    return 0


def _demo(options: argparse.Namespace) -> int:
    with _installed("spark"):
        from penstock.cli.demo.show import show
    return show(options.seconds, options.json)


def _run(options: argparse.Namespace) -> int:
    with _installed("spark"):
        from penstock.cli.run import run
    return run(options.job, options.seconds, options.report)


def _check(options: argparse.Namespace) -> int:
    with _installed("spark"):
        from penstock.cli.run import check
    return check(options.job)


@contextmanager
def _installed(extras: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise PenstockError(f"{error}; install it with: pip install 'penstock[{extras}]'") from None
