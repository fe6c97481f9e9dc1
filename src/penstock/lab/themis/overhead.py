"""Measures what deciding costs, beside random shedding (THEMIS, section 7.6)."""

import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import StudyScale, federation
from penstock.sim.deployment import deploy
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation, controller_of

SIMULATED_SECONDS = 300.0
FRAGMENTS = 2000
SITES = 18
MOST_WHOLE_SECONDS = 30.0
PAPERS_OVERHEAD = 88 / 79 - 1
"""What the paper calls 11 %: 88 and 79 µs a batch."""
ROUNDS = 3
"""Fair and random shedding take turns, so that a disturbance hits both."""


@dataclass(frozen=True)
class TimedController(Controller):
    """Is a controller that notes the processor time of each decision."""

    spent: list[float] = field(default_factory=list)

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        """Decides, and notes how long that took."""
        started = time.process_time()
        decided = super().step(state, report)
        self.spent.append(time.process_time() - started)
        return decided


@dataclass(frozen=True)
class ShedderTime:
    """Is what a run took, in seconds of processor time."""

    step: float
    """A step of all sites, with everything around the decisions."""
    decision: float
    """A decision of one site, on average."""


class ThemisOverhead:
    """Measures the processor time of decisions."""

    name: ClassVar[str] = "themis-overhead"
    about: ClassVar[str] = "the cost of a decision, and of simulating 2,000 fragments"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates a federation, a tenth of it, and one with random shedding."""
        scale = StudyScale.of(effort)
        duration = max(20.0, SIMULATED_SECONDS * effort / ROUNDS)
        fragments = scale.many(FRAGMENTS, 300)
        rounds: list[tuple[ShedderTime, ShedderTime]] = []
        count = 1 if scale.brief else ROUNDS
        for number in range(count):
            say(f"round {number + 1}", 0.9 * number / count)
            fair, random = (
                measured(_scenario(fragments, duration, policy))
                for policy in ("balance-sic", "random")
            )
            rounds.append((fair, random))
        say("a tenth of the fragments", 0.9)
        tenth = measured(_scenario(fragments / 10, duration, "balance-sic"))
        return judged(rounds, tenth, fragments)


def judged(
    rounds: list[tuple[ShedderTime, ShedderTime]], tenth: ShedderTime, fragments: int
) -> Result:
    """Says what came out of rounds of fair and random shedding, and of a tenth of the fragments."""
    fair, random = (_median([pair[side] for pair in rounds]) for side in (0, 1))
    growth, each = fair.step / tenth.step, (fair.step - tenth.step) / (0.9 * fragments)
    full = SIMULATED_SECONDS / 0.25 * (fair.step + each * (FRAGMENTS - fragments))
    decision, step = fair.decision / random.decision - 1, fair.step / random.step - 1
    rows = [
        (f"{fragments} fragments, balance-sic", fair.decision, fair.step),
        (f"{fragments} fragments, random", random.decision, random.step),
        (f"{round(fragments / 10)} fragments, balance-sic", tenth.decision, tenth.step),
    ]
    return Result(
        "THEMIS: overhead",
        "THEMIS, section 7.6",
        tables=[
            ResultTable(
                "Seconds of processor time",
                ("what", "a decision of one site", f"a step of {SITES} sites, all in all"),
                rows,
            )
        ],
        holds={
            f"{SIMULATED_SECONDS:g} s of {SITES} sites with {FRAGMENTS} fragments in at most "
            f"{MOST_WHOLE_SECONDS:g} s on one core ({full:.1f} s)": full <= MOST_WHOLE_SECONDS,
            f"ten times the fragments take at most 12 times the time ({growth:.1f})": (
                growth <= 12.0
            ),
            "a decision of the fair shedder takes at most 11 % more than one of the random "
            f"shedder, as in the paper ({decision:+.0%})": decision <= PAPERS_OVERHEAD,
            f"and so does a whole step of the simulation ({step:+.0%})": step <= PAPERS_OVERHEAD,
        },
        notes=[
            "A decision is a call of the controller: it learns from the batch that has finished, "
            "estimates what waits and what it costs, and divides the capacity. Both shedders do "
            "all of that; they differ in the division, which for the random one is one number. "
            "The paper's shedders take 88 and 79 µs a batch, of which the difference is 9 µs; "
            f"here it is {(fair.decision - random.decision) * 1e6:.0f} µs a decision.",
            f"Medians of {len(rounds)} rounds in turns.",
        ],
        figures={
            "rounds": [
                {"fair": vars(fair_round), "random": vars(random_round)}
                for fair_round, random_round in rounds
            ],
            "tenth": vars(tenth),
            "decision": decision,
            "step": step,
        },
    )


def _median(times: list[ShedderTime]) -> ShedderTime:
    return ShedderTime(
        float(np.median([each.step for each in times])),
        float(np.median([each.decision for each in times])),
    )


def _scenario(fragments: float, duration: float, policy: str) -> Scenario:
    return federation(round(fragments / 3.5), sites=SITES, duration=duration, policy=policy)


def measured(scenario: Scenario) -> ShedderTime:
    """Runs a scenario, and measures its decisions and all of it."""
    deployed = deploy(scenario)
    usual = controller_of(scenario, deployed)
    controller = TimedController(usual.settings, project=usual.project)
    simulation = Simulation(scenario, deployed, controller)
    started = time.process_time()
    simulation.run()
    whole = (time.process_time() - started) / scenario.steps
    return ShedderTime(whole, float(np.mean(controller.spent)))
