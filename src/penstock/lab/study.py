"""Has what experiments on federations share: set-ups, runs over seeds, and their spread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from penstock.core.fairness import Spread
from penstock.core.types import Floats
from penstock.lab.result import Say
from penstock.lab.themis.central import Problem, lexicographic_max_min
from penstock.sim.deployment import deploy
from penstock.sim.outcome import SimulationOutcome
from penstock.sim.query_graph import KINDS
from penstock.sim.scenario import AVG_PATH, Scenario
from penstock.sim.simulation import Simulation

Value = TypeVar("Value")
COMPLEX_KINDS = ("avg-all", "top-5", "cov")
COST_PER_FRAGMENT = sum(
    KINDS[kind].sources * KINDS[kind].path / AVG_PATH for kind in COMPLEX_KINDS
) / len(COMPLEX_KINDS)
"""What a tuple of each source costs, all together; the mean over the complex workload."""
TUPLES_PER_SECOND = 150.0
"""What every source sends."""


@dataclass(frozen=True)
class StudyScale:
    """Says how much is done for an effort between 0 and 1."""

    seeds: tuple[int, ...]
    duration: float
    """Seconds of each run."""
    size: float
    """The size of deployments, as a share of the paper's."""
    brief: bool
    """Whether the run only shows that it runs: a third of the sites, and the ends of each sweep."""

    @classmethod
    def of(cls, effort: float) -> "StudyScale":
        """Returns the scale for an effort."""
        if effort < 0.1:
            return cls((1,), 24.0, 0.06, brief=True)
        return cls((1, 2, 3), 60.0 + 60.0 * effort, 0.06 + 0.94 * effort, brief=False)

    def many(self, number: float, least: int = 12) -> int:
        """Scales the paper's number of queries or fragments."""
        return max(least, round(number * self.size))

    def sites(self, number: int) -> int:
        """Scales the paper's number of sites."""
        return max(2, number // 3) if self.brief else number

    def some(self, sweep: Sequence[Value]) -> Sequence[Value]:
        """Returns the points of a sweep to run."""
        return [sweep[0], sweep[-1]] if self.brief else sweep


def federation(
    queries: int,
    fragments: tuple[int, int] = (1, 6),
    sites: int = 18,
    overload: float = 4.5,
    latency: float = 0.005,
    **more: Any,
) -> Scenario:
    """Returns complex queries on sites that are overloaded so many times, on average."""
    each = max(1, round(queries / 3))
    demand = 3 * each * sum(fragments) / 2 * COST_PER_FRAGMENT * TUPLES_PER_SECOND
    return Scenario.model_validate(
        {
            "sites": {"count": sites, "capacity": demand / sites / overload, "latency": latency},
            "queries": [{"kind": k, "count": each, "fragments": fragments} for k in COMPLEX_KINDS],
            **more,
        }
    )


@dataclass(frozen=True)
class RunSummary:
    """Sums one run up in a few figures."""

    spread: Spread
    least_jain: float
    """The least at any instant after the run settled."""
    utilisation: float

    @property
    def relative_std(self) -> float:
        """Returns the standard deviation over the mean of SIC."""
        return self.spread.std / max(self.spread.mean, 1e-12)


@dataclass(frozen=True)
class SeededRuns:
    """Holds runs of one scenario with several seeds."""

    runs: tuple[RunSummary, ...]

    def values(self, of: Callable[[RunSummary], float]) -> list[float]:
        """Returns a figure of each run."""
        return [of(run) for run in self.runs]

    def median(self, of: Callable[[RunSummary], float]) -> float:
        """Returns the median of a figure."""
        return float(np.median(self.values(of)))

    def cell(self, of: Callable[[RunSummary], float]) -> str:
        """Returns a figure as ``0.987 (0.981 to 0.990)``; a single seed has no spread."""
        values = self.values(of)
        if len(values) == 1:
            return f"{values[0]:.3f}"
        return f"{np.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    def json(self) -> list[dict[str, float]]:
        """Returns all figures as plain values."""
        return [
            {
                "mean": run.spread.mean,
                "jain": run.spread.jain,
                "std": run.spread.std,
                "iqr": run.spread.iqr,
                "q95_q05": run.spread.q95_q05,
                "least_jain": run.least_jain,
                "utilisation": run.utilisation,
            }
            for run in self.runs
        ]


def of_a_fragment(share: float) -> float:
    """Returns this share of what the tuples of a fragment cost a second, on average."""
    return share * COST_PER_FRAGMENT * TUPLES_PER_SECOND


def central_optimum(scenario: Scenario, seed: int) -> Floats:
    """Returns each query's SIC where a planner who knows everything decides."""
    problem = Problem.of(deploy(scenario.changed(seed=seed)), TUPLES_PER_SECOND)
    return lexicographic_max_min(problem)


def jain_of(run: RunSummary) -> float:
    """Returns Jain's index of a run."""
    return run.spread.jain


def mean_of(run: RunSummary) -> float:
    """Returns the mean SIC of a run."""
    return run.spread.mean


_known: dict[str, RunSummary] = {}
"""The runs so far by scenario, since several experiments look at the same deployments."""


def over_seeds(scenario: Scenario, seeds: Sequence[int]) -> SeededRuns:
    """Simulates a scenario with several seeds."""
    return SeededRuns(tuple(_run(scenario.changed(seed=seed)) for seed in seeds))


def sweep(
    points: Sequence[Value],
    scenario: Callable[[Value], Scenario],
    scale: StudyScale,
    say: Say,
    part: tuple[float, float] = (0.0, 1.0),
) -> dict[Value, SeededRuns]:
    """Returns the runs of each point; ``part`` says which part of the experiment this is."""
    found = {}
    for number, point in enumerate(points):
        say(_words(point), part[0] + (part[1] - part[0]) * number / len(points))
        found[point] = over_seeds(scenario(point), scale.seeds)
    return found


def _words(point: object) -> str:
    return ", ".join(map(str, point)) if isinstance(point, tuple) else str(point)


def with_sites(scenario: Scenario, count: int, capacity: float) -> Scenario:
    """Returns the same queries on so many sites of this capacity."""
    return scenario.changed(sites={"count": count, "capacity": capacity})


def _run(scenario: Scenario) -> RunSummary:
    key = scenario.model_dump_json()
    if key not in _known:
        _known[key] = in_short(Simulation(scenario).run())
    return _known[key]


def in_short(outcome: SimulationOutcome) -> RunSummary:
    """Sums up what a simulation found."""
    instants = outcome.jain_over_time()[outcome.settled]
    return RunSummary(outcome.spread, float(instants.min()), float(outcome.utilisation.mean()))
