"""Reproduces figures 4 to 8: one parameter moves, the rest stays."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.lab.las.figure_claims import Point, judged
from penstock.lab.las.measure import FLEETS, FigureScale, measured, spread
from penstock.lab.las.streams import Setting
from penstock.lab.result import Result, ResultTable, Say
from penstock.plots import Line, Plot

UNDER_PROVISIONED_SHARES = tuple(n / 100 for n in range(90, -20, -10))
DOUBLING_THRESHOLDS = tuple(0.1 * 2**n for n in range(10))
DISTINCT_COSTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
SKETCH_ERRORS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@dataclass(frozen=True)
class Sweep:
    """Describes a figure in which one parameter moves."""

    figure: int | None
    """None for what the paper tried and shows no figure of."""
    what: str
    values: tuple[float, ...]
    setting: Callable[[float], Setting]
    log: bool = False

    @property
    def title(self) -> str:
        """Returns the title of table and plots."""
        return f"Figure {self.figure}: {self.what}" if self.figure else f"Section V-A: {self.what}"

    @property
    def axis(self) -> str:
        """Returns what stands below the plots, with its unit."""
        name, _, unit = self.what.partition(", ")
        return f"{name} ({unit or 'ratio'})"

    @property
    def name(self) -> str:
        """Returns how its plots begin."""
        return f"figure-{self.figure}" if self.figure else "distinct-costs"


SWEEPS = (
    Sweep(4, "under-provisioning", UNDER_PROVISIONED_SHARES, lambda x: Setting(under=x)),
    Sweep(5, "threshold τ, ms", (0.0, *DOUBLING_THRESHOLDS[:8]), lambda x: Setting(threshold=x)),
    Sweep(
        6,
        "largest cost = τ, ms",
        DOUBLING_THRESHOLDS,
        lambda x: Setting(most=x, threshold=x),
        log=True,
    ),
    Sweep(7, "skew α", tuple(n / 2 for n in range(7)), lambda x: Setting(skew=x)),
    Sweep(8, "precision ε", SKETCH_ERRORS, lambda x: Setting(error=x), log=True),
    Sweep(None, "distinct costs w_n", DISTINCT_COSTS, lambda x: Setting(distinct=int(x)), log=True),
)


def add(result: Result, scale: FigureScale, say: Say) -> None:
    """Adds the figures."""
    total = sum(len(sweep.values[:: scale.thin]) for sweep in SWEEPS)
    done = 0
    for sweep in SWEEPS:
        latency: dict[str, list[Point]] = {name: [] for name in FLEETS}
        dropped: dict[str, list[Point]] = {name: [] for name in FLEETS}
        values = sweep.values[:: scale.thin]
        for value in values:
            say(f"{sweep.title} {value:g}", done / total)
            for name, outcome in measured(sweep.setting(value), scale.points, scale).items():
                latency[name].append(spread(outcome.latency))
                dropped[name].append(spread(outcome.dropped_share))
            done += 1
        _publish(result, sweep, values, latency, dropped)
        if scale.whole:
            result.holds |= judged(sweep.figure, values, latency, dropped)


def _publish(
    result: Result,
    sweep: Sweep,
    values: tuple[float, ...],
    latency: dict[str, list[Point]],
    dropped: dict[str, list[Point]],
) -> None:
    columns = [f"{name}: {what}" for name in FLEETS for what in ("Q̄, ms", "dropped", "λ")]
    base = [mean for mean, *_ in dropped["Base Line"]]
    rows = []
    for place, value in enumerate(values):
        cells: list[float | None] = []
        for name in FLEETS:
            share = dropped[name][place][0]
            more = share / base[place] - 1 if base[place] > 0 else None
            cells += [latency[name][place][0], share, more]
        rows.append((value, *cells))
    result.tables.append(ResultTable(sweep.title, (sweep.what, *columns), rows))
    for what, points, label in (
        ("latency", latency, "mean queuing latency (ms)"),
        ("dropped", dropped, "tuples dropped (share)"),
    ):
        lines = [Line(name, values, *zip(*found, strict=True)) for name, found in points.items()]
        result.plots.append(
            Plot(
                name=f"{sweep.name}-{what}",
                title=sweep.title,
                x=sweep.axis,
                y=label,
                lines=lines,
                log_x=sweep.log,
                log_y=what == "latency" and sweep.figure != 5,
                marks=[("τ", 6.4)] if what == "latency" and sweep.figure not in (5, 6) else (),
            )
        )
    result.figures[sweep.name.replace("-", " ")] = {
        "x": list(values),
        "latency": latency,
        "dropped_share": dropped,
    }
