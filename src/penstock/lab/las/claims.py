"""The default setting: what the paper claims of LAS, and what ours does better."""

import numpy as np

from penstock.lab.las.measure import FigureScale, measured, spread
from penstock.lab.las.streams import Setting
from penstock.lab.result import Result, ResultTable


def add(result: Result, scale: FigureScale) -> None:
    """Adds what the paper claims of its default setting."""
    setting = Setting()
    tau = setting.threshold
    found = measured(setting, scale.associations, scale)
    full, las, ours = (found[name] for name in ("Full Knowledge", "LAS", "Dearest First"))
    rows = [
        (
            name,
            *spread(outcome.latency),
            float(np.mean(outcome.latency <= tau)),
            float(outcome.dropped_share.mean()),
            float(outcome.dropped.sum() / full.dropped.sum()),
        )
        for name, outcome in found.items()
    ]
    columns = ("shedder", "mean Q̄, ms", "least", "most", "runs with Q̄ ≤ τ", "dropped")
    result.tables.append(
        ResultTable(
            f"Default setting, {las.latency.size} runs: Zipf-1.0, 25 % under-provisioned, AVG(6.4)",
            (*columns, "drops of Full Knowledge's"),
            rows,
        )
    )
    poor = min(found[name].latency.mean() for name in ("Straw-Man", "Base Line"))
    if scale.whole:  # their queues grow with the stream
        result.holds |= {
            "LAS' mean queuing latency is at most 1.15 τ": bool(las.latency.mean() <= 1.15 * tau),
            "Straw-Man's and Base Line's are above 10 τ": bool(poor > 10 * tau),
        }
    result.holds |= {
        "Full Knowledge's running average is never above τ": bool(full.highest.max() <= tau + 1e-9),
        "LAS drops at most 15 % more tuples than Full Knowledge": bool(
            las.dropped.sum() <= 1.15 * full.dropped.sum()
        ),
        "Dearest First holds the average at or below τ in at least 95 % of the runs": bool(
            np.mean(ours.latency <= tau) >= 0.95
        ),
        "Dearest First drops fewer tuples than Full Knowledge": bool(
            ours.dropped.sum() < full.dropped.sum()
        ),
    }
    result.figures["default"] = {
        name: {
            "latency": outcome.latency.tolist(),
            "dropped_share": outcome.dropped_share.tolist(),
            "highest_running_average": outcome.highest.tolist(),
        }
        for name, outcome in found.items()
    }
