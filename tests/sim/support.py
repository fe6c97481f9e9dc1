"""Small scenarios for tests."""

from typing import Any

from penstock.lab.study import federation
from penstock.sim.outcome import SimulationOutcome
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation


def small(
    queries: int = 12, fragments: str = "1-3", sites: int = 4, overload: float = 4.0, **more: Any
) -> Scenario:
    """A mix of complex queries on sites that are overloaded so many times, on average."""
    low, _, high = fragments.partition("-")
    settings = {"seed": 3, "duration": "40s", **more}
    return federation(queries, (int(low), int(high or low)), sites, overload, **settings)


def run(scenario: Scenario) -> SimulationOutcome:
    return Simulation(scenario).run()
