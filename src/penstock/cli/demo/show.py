"""The sequence of events of `penstock demo`."""

import json
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from penstock.cli.command_support import check_writable
from penstock.cli.demo.calibrate import Bench
from penstock.cli.demo.runner import DemoRun, Runner, TooEasy
from penstock.cli.demo.screen import DemoScreen
from penstock.cli.demo.summary import Verdict, as_json, conclusion, judge, table
from penstock.cli.demo.truth import Pool
from penstock.cli.demo.view import Clock, DemoLines, DemoView
from penstock.cli.demo.workload import Workload
from penstock.cli.interrupt import Interrupt
from penstock.cli.terminal import drawable
from penstock.errors import PenstockError
from penstock.spark.session import check_java, cores, session, workspace

BUDGET = 165.0
"""Seconds for the whole demo; where Spark takes long to start the runs are shorter."""
LONGEST, SHORTEST = 40.0, 20.0
"""Seconds of a run, unless asked for otherwise."""
LEAST, MOST = 4.0, 3600.0
START, MEASURE, WARM, AROUND, END = 8.0, 34.0, 6.0, 4.0, 4.0
"""Seconds: Spark starts, the machine is measured, the gate warmed up, a run starts and stops, all
is compared."""


def show(seconds: float | None = None, file: Path | None = None) -> int:
    """Runs the demo, each of its two runs for so many seconds; the exit code."""
    _check(seconds, file)
    check_java()
    console, clock, interrupt = Console(), Clock(), Interrupt()
    try:
        with interrupt.installed():
            load, verdicts = _performed(seconds, _view(console, clock), clock, interrupt)
    except KeyboardInterrupt:
        console.print(f"stopped after {clock.elapsed:.0f} s; nothing is left running")
        return 128 + (interrupt.number or signal.SIGINT)
    console.print(table(verdicts))
    console.print(conclusion(verdicts, load, clock.elapsed), highlight=False, soft_wrap=True)
    if file is not None:
        file.write_text(json.dumps(as_json(verdicts, load, clock.elapsed), indent=2) + "\n")
    return 0


def _check(seconds: float | None, file: Path | None) -> None:
    if seconds is not None and not LEAST <= seconds <= MOST:
        raise PenstockError(f"--seconds: from {LEAST:g} to {MOST:g} for each run, not {seconds:g}")
    check_writable("--json", file)


def _view(console: Console, clock: Clock) -> DemoView:
    return DemoScreen(console, clock) if drawable(console) else DemoLines(console, clock)


def _performed(
    seconds: float | None, view: DemoView, clock: Clock, interrupt: Interrupt
) -> tuple[Workload, dict[str, Verdict]]:
    measure = min(MEASURE, seconds or MEASURE)
    runs = 2 * ((seconds or LONGEST) + AROUND) + WARM
    with view, workspace("demo") as directory:
        view.stage("starting Spark", START, measure + runs + END)
        with session(directory, "demo") as spark:
            interrupt.spark_started()
            view.stage("measuring what this machine can process", measure, runs + END)
            machine = Bench(spark, cores(), directory, interrupt).measure(measure)
            load = Workload(
                capacity=round(machine.capacity),
                seconds=seconds or length(clock.elapsed),
                partitions=cores(),
                latency=machine.latency,
            )
            runner = Runner(spark, directory, interrupt)
            try:
                plain = _plain(runner, view, load, final=seconds is not None)
            except TooEasy as easy:
                load = replace(load, capacity=round(easy.capacity), seconds=length(clock.elapsed))
                plain = _plain(runner, view, load, final=True)
            gated = _gated(runner, view, load)
            view.stage("comparing with the exact answer", END, 0.0)
            pool = Pool.of_demo()
            outcomes = {"plain": plain, "gated": gated}
            verdicts = {name: judge(outcome, load, pool) for name, outcome in outcomes.items()}
    return load, verdicts


def _plain(runner: Runner, view: DemoView, load: Workload, *, final: bool) -> DemoRun:
    run = load.seconds + AROUND
    view.stage(f"without Penstock ({load})", run, run + WARM + END)
    return runner.plain(load, partial(view.reading, "plain"), final=final)


def _gated(runner: Runner, view: DemoView, load: Workload) -> DemoRun:
    run = load.seconds + AROUND
    view.stage("warming up the gate", WARM, run + END)
    runner.warm_gate(load, min(WARM, load.seconds / 4))
    view.stage(f"with Penstock ({load})", run, END)
    return runner.gated(load, partial(view.reading, "gated"))


def length(elapsed: float) -> float:
    """Of a run, so that the whole keeps to its budget; whole seconds."""
    return float(min(max((BUDGET - elapsed - WARM - END) // 2 - AROUND, SHORTEST), LONGEST))
