"""Shows `penstock demo`: measures the machine, runs the job twice, and compares."""

import json
import signal
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Self

from rich.console import Console

from penstock.cli.command_support import check_writable, installed
from penstock.cli.demo.calibrate import Bench
from penstock.cli.demo.meter import Reading
from penstock.cli.demo.picture import picture
from penstock.cli.demo.runner import DemoRun, Runner, TooEasy
from penstock.cli.demo.screen import DemoScreen
from penstock.cli.demo.summary import Verdict, as_json, conclusion, judge, table
from penstock.cli.demo.truth import Pool
from penstock.cli.demo.view import Clock, DemoLines, DemoView
from penstock.cli.demo.workload import Workload
from penstock.cli.interrupt import Interrupt
from penstock.cli.terminal import drawable
from penstock.errors import PenstockError
from penstock.plots import draw
from penstock.spark.session import check_java, cores, session, workspace

DEMO_SECONDS = 165.0
"""How long the whole demo takes; where Spark takes long to start, the runs are shorter."""
LONGEST_RUN_SECONDS, SHORTEST_RUN_SECONDS = 40.0, 20.0
"""How long a run takes, unless the user asks for another length."""
PICTURES = (".svg", ".png")
LEAST_SECONDS, MOST_SECONDS = 4.0, 3600.0
"""What the user may ask for."""
SPARK_START_SECONDS = 8.0
MEASURING_SECONDS = 34.0
GATE_WARM_UP_SECONDS = 6.0
RUN_OVERHEAD_SECONDS = 4.0
"""What a run takes to start and stop."""
COMPARING_SECONDS = 4.0


class Seen(DemoView):
    """Remembers what a view is told of each run, the last try of it."""

    def __init__(self, view: DemoView) -> None:
        self._view = view
        self.readings: dict[str, list[Reading]] = {}

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._view.__exit__(*error)

    def stage(self, title: str, seconds: float, later: float) -> None:
        """Tells the view."""
        self._view.stage(title, seconds, later)

    def reading(self, run: str, reading: Reading) -> None:
        """Remembers it, and tells the view."""
        before = self.readings.setdefault(run, [])
        if before and before[-1].elapsed > reading.elapsed:
            before.clear()  # it was too easy, and begins again
        before.append(reading)
        self._view.reading(run, reading)


def show(seconds: float | None = None, file: Path | None = None, drawn: Path | None = None) -> int:
    """Runs the demo, each of its two runs for so many seconds, and returns the exit code.

    All figures go to ``file``, and a picture of both runs to ``drawn``.
    """
    _check(seconds, file, drawn)
    check_java()
    console, clock, interrupt = Console(), Clock(), Interrupt()
    seen = Seen(_view(console, clock))
    try:
        with interrupt.installed():
            load, verdicts = _performed(seconds, seen, clock, interrupt)
    except KeyboardInterrupt:
        console.print(f"stopped after {clock.elapsed:.0f} s; nothing is left running")
        return 128 + (interrupt.number or signal.SIGINT)
    console.print(table(verdicts))
    console.print(conclusion(verdicts, load, clock.elapsed), highlight=False, soft_wrap=True)
    if file is not None:
        file.write_text(json.dumps(as_json(verdicts, load, clock.elapsed), indent=2) + "\n")
    if drawn is not None:
        draw(picture(seen.readings, load), drawn)
    return 0


def _check(seconds: float | None, file: Path | None, drawn: Path | None) -> None:
    if seconds is not None and not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise PenstockError(
            f"--seconds must lie between {LEAST_SECONDS:g} and {MOST_SECONDS:g}, such as 40; "
            f"got {seconds:g}"
        )
    check_writable("--json", file)
    if drawn is None:
        return
    if drawn.suffix not in PICTURES:
        raise PenstockError(f"--plot must be an SVG or a PNG, such as demo.svg; got {str(drawn)!r}")
    check_writable("--plot", drawn)
    with installed("experiments"):
        import_module("matplotlib")


def _view(console: Console, clock: Clock) -> DemoView:
    return DemoScreen(console, clock) if drawable(console) else DemoLines(console, clock)


def _performed(
    seconds: float | None, view: DemoView, clock: Clock, interrupt: Interrupt
) -> tuple[Workload, dict[str, Verdict]]:
    measure = min(MEASURING_SECONDS, seconds or MEASURING_SECONDS)
    runs = 2 * ((seconds or LONGEST_RUN_SECONDS) + RUN_OVERHEAD_SECONDS) + GATE_WARM_UP_SECONDS
    with view, workspace("demo") as directory:
        view.stage("starting Spark", SPARK_START_SECONDS, measure + runs + COMPARING_SECONDS)
        with session(directory, "demo") as spark:
            interrupt.spark_started()
            view.stage("measuring what this machine can process", measure, runs + COMPARING_SECONDS)
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
            view.stage("comparing with the exact answer", COMPARING_SECONDS, 0.0)
            pool = Pool.of_demo()
            outcomes = {"plain": plain, "gated": gated}
            verdicts = {name: judge(outcome, load, pool) for name, outcome in outcomes.items()}
    return load, verdicts


def _plain(runner: Runner, view: DemoView, load: Workload, *, final: bool) -> DemoRun:
    run = load.seconds + RUN_OVERHEAD_SECONDS
    view.stage(f"without Penstock ({load})", run, run + GATE_WARM_UP_SECONDS + COMPARING_SECONDS)
    return runner.plain(load, partial(view.reading, "plain"), final=final)


def _gated(runner: Runner, view: DemoView, load: Workload) -> DemoRun:
    run = load.seconds + RUN_OVERHEAD_SECONDS
    view.stage("warming up the gate", GATE_WARM_UP_SECONDS, run + COMPARING_SECONDS)
    runner.warm_gate(load, min(GATE_WARM_UP_SECONDS, load.seconds / 4))
    view.stage(f"with Penstock ({load})", run, COMPARING_SECONDS)
    return runner.gated(load, partial(view.reading, "gated"))


def length(elapsed: float) -> float:
    """Returns the whole seconds of a run with which the demo keeps to its time."""
    left = DEMO_SECONDS - elapsed - GATE_WARM_UP_SECONDS - COMPARING_SECONDS
    each = left // 2 - RUN_OVERHEAD_SECONDS
    return float(min(max(each, SHORTEST_RUN_SECONDS), LONGEST_RUN_SECONDS))
