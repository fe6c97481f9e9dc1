"""Reproduces figure 9: seven phases, each with an abrupt change."""

import numpy as np

from penstock.core.types import Floats
from penstock.lab.las.fleet import Outcomes, simulate_fleet
from penstock.lab.las.measure import FLEETS, FigureScale
from penstock.lab.las.phase_claims import judged
from penstock.lab.las.streams import PHASE_TUPLES, STREAM_TUPLES, seven_phases
from penstock.lab.result import Cell, Result, ResultTable
from penstock.plots import Line, Plot

PHASE_NAMES = "ABCDEFG"
WINDOWS_PER_PHASE = 5
"""Jumping windows have 4,000 tuples each."""
WINDOWS_TO_RECOVER = 2
"""The average is to be back so many windows (8,000 tuples) after a change."""
THRESHOLD_MILLISECONDS = 64.0


def add(result: Result, scale: FigureScale) -> None:
    """Adds figure 9."""
    each = PHASE_TUPLES * scale.tuples // STREAM_TUPLES // WINDOWS_PER_PHASE * WINDOWS_PER_PHASE
    made = seven_phases(scale.series, THRESHOLD_MILLISECONDS, each)
    found = {
        name: simulate_fleet(made, fleet(made), each // WINDOWS_PER_PHASE)
        for name, fleet in FLEETS.items()
        if name != "Base Line"
    }
    latency = {name: _latency(outcome) for name, outcome in found.items()}
    dropped = {name: 1 - outcome.kept / outcome.window for name, outcome in found.items()}
    _tabulate(result, latency, dropped, each)
    ours = latency["Dearest First"].reshape(len(PHASE_NAMES), WINDOWS_PER_PHASE, -1)[
        :, WINDOWS_TO_RECOVER:
    ]
    theirs = latency["LAS"].reshape(len(PHASE_NAMES), WINDOWS_PER_PHASE, -1)[:, WINDOWS_TO_RECOVER:]
    if scale.whole:
        claim = "Figure 9: Dearest First is at or below τ within 8,000 tuples of each change"
        result.holds[claim] = bool((ours <= THRESHOLD_MILLISECONDS).all())
        result.holds |= judged(
            {name: values.mean(axis=1) for name, values in latency.items()},
            {name: values.mean(axis=1) for name, values in dropped.items()},
            THRESHOLD_MILLISECONDS,
        )
    above = theirs.mean(axis=2).max(axis=1) > THRESHOLD_MILLISECONDS
    result.figures["figure 9"] = {
        "tuples in a phase": each,
        "latency": {name: values.tolist() for name, values in latency.items()},
        "dropped_share": {name: values.tolist() for name, values in dropped.items()},
        "phases in which LAS is above τ after two windows": [
            name for name, late in zip(PHASE_NAMES, above, strict=True) if late
        ],
        "most of Dearest First after two windows": float(ours.max()),
    }


def _latency(outcome: Outcomes) -> Floats:
    """Returns the latency of each window and run; 0 for a window that kept nothing."""
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
            f"{PHASE_NAMES[window // WINDOWS_PER_PHASE]}{window % WINDOWS_PER_PHASE + 1}",
            *(float(latency[name][window].mean()) for name in names),
            *(float(dropped[name][window].mean()) for name in names),
        )
        for window in range(len(PHASE_NAMES) * WINDOWS_PER_PHASE)
    ]
    columns = ("window", *(f"{n}: Q̄, ms" for n in names), *(f"{n}: dropped" for n in names))
    result.tables.append(
        ResultTable("Figure 9: seven phases, τ = 64 ms, cold start", columns, rows)
    )
    for what, values, label in (
        ("latency", latency, "mean queuing latency (ms)"),
        ("dropped", dropped, "tuples dropped (share)"),
    ):
        lines = [
            Line(
                name,
                [
                    each / WINDOWS_PER_PHASE / 1000 * (window + 1)
                    for window in range(len(PHASE_NAMES) * WINDOWS_PER_PHASE)
                ],
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
                x="tuples so far (thousands)",
                y=label,
                lines=lines,
                log_y=what == "latency",
                marks=[("τ", THRESHOLD_MILLISECONDS)] if what == "latency" else (),
            )
        )
