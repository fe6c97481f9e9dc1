"""Figure 9: seven phases, each with an abrupt change."""

import numpy as np

from penstock.core.types import Floats
from penstock.lab.las.fleet import Outcomes, simulate_fleet
from penstock.lab.las.measure import FLEETS, FigureScale
from penstock.lab.las.streams import PHASE, TUPLES, seven_phases
from penstock.lab.result import Cell, Result, ResultTable
from penstock.plots import Line, Plot

NAMES = "ABCDEFG"
WINDOWS = 5
"""Jumping windows in a phase: of 4,000 tuples."""
BACK = 2
"""So many windows after a change (8,000 tuples) the average is to be back."""
THRESHOLD = 64.0


def add(result: Result, scale: FigureScale) -> None:
    each = PHASE * scale.tuples // TUPLES // WINDOWS * WINDOWS
    made = seven_phases(scale.series, THRESHOLD, each)
    found = {
        name: simulate_fleet(made, fleet(made), each // WINDOWS)
        for name, fleet in FLEETS.items()
        if name != "Base Line"
    }
    latency = {name: _latency(outcome) for name, outcome in found.items()}
    dropped = {name: 1 - outcome.kept / outcome.window for name, outcome in found.items()}
    _tabulate(result, latency, dropped, each)
    ours = latency["Dearest First"].reshape(len(NAMES), WINDOWS, -1)[:, BACK:]
    theirs = latency["LAS"].reshape(len(NAMES), WINDOWS, -1)[:, BACK:]
    if scale.whole:
        claim = "Figure 9: Dearest First is at or below τ within 8,000 tuples of each change"
        result.holds[claim] = bool((ours <= THRESHOLD).all())
    above = theirs.mean(axis=2).max(axis=1) > THRESHOLD
    result.figures["figure 9"] = {
        "tuples in a phase": each,
        "latency": {name: values.tolist() for name, values in latency.items()},
        "dropped_share": {name: values.tolist() for name, values in dropped.items()},
        "phases in which LAS is above τ after two windows": [
            name for name, late in zip(NAMES, above, strict=True) if late
        ],
        "most of Dearest First after two windows": float(ours.max()),
    }


def _latency(outcome: Outcomes) -> Floats:
    """Of each window and run; of a window in which nothing was kept, 0."""
    return np.asarray(outcome.waits / np.maximum(outcome.kept, 1))


def _tabulate(
    result: Result,
    latency: dict[str, Floats],
    dropped: dict[str, Floats],
    each: int,
) -> None:
    names = list(latency)
    rows: list[tuple[Cell, ...]] = [
        (
            f"{NAMES[window // WINDOWS]}{window % WINDOWS + 1}",
            *(float(latency[name][window].mean()) for name in names),
            *(float(dropped[name][window].mean()) for name in names),
        )
        for window in range(len(NAMES) * WINDOWS)
    ]
    columns = ("window", *(f"{n}: Q̄, ms" for n in names), *(f"{n}: dropped" for n in names))
    result.tables.append(
        ResultTable("Figure 9: seven phases, τ = 64 ms, cold start", columns, rows)
    )
    for what, values, label in (
        ("latency", latency, "queuing latency, ms"),
        ("dropped", dropped, "dropped share"),
    ):
        lines = [
            Line(
                name,
                [each / WINDOWS / 1000 * (window + 1) for window in range(len(NAMES) * WINDOWS)],
                values[name].mean(axis=1).tolist(),
                values[name].min(axis=1).tolist(),
                values[name].max(axis=1).tolist(),
            )
            for name in names
        ]
        result.plots.append(
            Plot(
                name=f"figure-9-{what}",
                title=f"Figure 9: phases A to G, {each:,} tuples each",
                x="thousand tuples",
                y=label,
                lines=lines,
                log_y=what == "latency",
                marks=[("τ", THRESHOLD)] if what == "latency" else (),
            )
        )
