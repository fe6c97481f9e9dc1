"""Small scenarios for tests."""

from typing import Any

from penstock.sim.engine import Simulation
from penstock.sim.measure import Outcome
from penstock.sim.scenario import Scenario

COMPLEX = ("avg-all", "top-5", "cov")


def small(
    queries: int = 12, fragments: str = "1-3", sites: int = 4, overload: float = 4.0, **more: Any
) -> Scenario:
    """A mix of complex queries on sites that are overloaded so many times, on average."""
    low, _, high = fragments.partition("-")
    mean = (int(low) + int(high or low)) / 2
    demand = queries * mean * (10 + 20 + 2) / 3 * 150.0
    return Scenario.model_validate(
        {
            "seed": 3,
            "duration": "40s",
            "sites": {"count": sites, "capacity": demand / sites / overload},
            "queries": [
                {"kind": kind, "count": queries // 3, "fragments": fragments} for kind in COMPLEX
            ],
            **more,
        }
    )


def run(scenario: Scenario) -> Outcome:
    return Simulation(scenario).run()
