"""Measures what deciding costs, beside random shedding (THEMIS, section 7.6)."""

import time
from typing import ClassVar

from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import StudyScale, federation
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation

SIMULATED_SECONDS = 300.0
FRAGMENTS = 2000


class ThemisOverhead:
    """Measures the processor time of decisions."""

    name: ClassVar[str] = "themis-overhead"
    about: ClassVar[str] = "the cost of a decision, and of simulating 2,000 fragments"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates a federation, a tenth of it, and one with random shedding."""
        scale = StudyScale.of(effort)
        duration = max(20.0, SIMULATED_SECONDS * effort)
        shorter = max(20.0, duration / 3)
        fragments = scale.many(FRAGMENTS, 300)
        say("all fragments", 0.0)
        whole = _seconds_a_step(_scenario(fragments, duration, "balance-sic"))
        say("random shedding", 0.4)
        blind = _seconds_a_step(_scenario(fragments, shorter, "random"))
        say("a tenth of the fragments", 0.8)
        tenth = _seconds_a_step(_scenario(fragments / 10, shorter, "balance-sic"))
        steps, sites = SIMULATED_SECONDS / 0.25, 18
        growth, each = whole / tenth, (whole - tenth) / (0.9 * fragments)
        full = steps * (whole + each * (FRAGMENTS - fragments))
        return Result(
            "THEMIS: overhead",
            "THEMIS, section 7.6",
            tables=[
                ResultTable(
                    "Seconds of processor time",
                    ("what", "a step of 18 sites", "a site's decision and all around it"),
                    [
                        (f"{fragments} fragments, balance-sic", whole, whole / sites),
                        (f"{fragments} fragments, random", blind, blind / sites),
                        (f"{round(fragments / 10)} fragments, balance-sic", tenth, tenth / sites),
                    ],
                )
            ],
            holds={
                f"{SIMULATED_SECONDS:g} s of 18 sites with {FRAGMENTS} fragments in at most 30 s "
                f"on one core ({full:.1f} s)": full <= 30.0,
                f"ten times the fragments take at most 12 times the time ({growth:.1f})": (
                    growth <= 12.0
                ),
            },
            notes=[
                f"The paper's fair shedder takes 11 % more time than its random one; here, with "
                f"everything around it, {whole / blind - 1:+.0%}."
            ],
            figures={"whole": whole, "random": blind, "tenth": tenth},
        )


def _scenario(fragments: float, duration: float, policy: str) -> Scenario:
    return federation(round(fragments / 3.5), duration=duration, policy=policy)


def _seconds_a_step(scenario: Scenario) -> float:
    simulation = Simulation(scenario)
    started = time.process_time()
    simulation.run()
    return (time.process_time() - started) / scenario.steps
