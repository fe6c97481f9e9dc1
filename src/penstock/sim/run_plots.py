"""Describes pictures of a run and of a sweep; ``penstock.plots`` draws them."""

import numpy as np

from penstock.core.types import Floats
from penstock.plots import Line, Plot
from penstock.sim.outcome import SimulationOutcome
from penstock.sim.what_if import Answer

UNITS = {"queries": "number", "sites": "number", "capacity": "tuples/s", "rate": "tuples/s"}
"""Of what a planner can ask about."""


def plots_of_run(outcome: SimulationOutcome) -> list[Plot]:
    there = ~np.isnan(outcome.over_time).all(axis=1)
    times, rows = outcome.times[there], outcome.over_time[there]
    low, middle, high = np.nanquantile(rows, [0.05, 0.5, 0.95], axis=1)
    jain = outcome.jain_over_time()[there]
    return [
        Plot(
            "sic-over-time",
            "SIC of the queries (band: 5 % to 95 %)",
            "time (s)",
            "SIC (share)",
            [_line("median", times, middle, low, high)],
        ),
        Plot(
            "jain-over-time",
            "How even the SIC of the queries is",
            "time (s)",
            "Jain's index (0 to 1)",
            [_line("Jain", times, jain)],
        ),
        Plot(
            "queries",
            "Queries by mean SIC",
            "query (rank)",
            "mean SIC (share)",
            [_line("SIC", np.arange(float(outcome.measured.size)), np.sort(outcome.measured))],
        ),
    ]


def plots_of_answer(answer: Answer) -> list[Plot]:
    dial, at = answer.question.dial, np.array([p.at for p in answer.points])
    marks = [] if answer.at_least is None else [(f"{answer.at_least:g}", answer.at_least)]
    lines = [
        _line("mean SIC", at, np.array([p.mean_sic for p in answer.points])),
        _line("Jain", at, np.array([p.jain for p in answer.points])),
    ]
    y = "mean SIC (share), Jain's index (0 to 1)"
    return [
        Plot(
            f"what-if-{dial}", f"What if: {dial}", f"{dial} ({UNITS[dial]})", y, lines, marks=marks
        )
    ]


def _line(
    label: str, x: Floats, y: Floats, low: Floats | None = None, high: Floats | None = None
) -> Line:
    return Line(
        label,
        x.tolist(),
        y.tolist(),
        None if low is None else low.tolist(),
        None if high is None else high.tolist(),
    )
