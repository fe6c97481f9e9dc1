"""THEMIS, figures 8 and 9: one site under more and more load, and the shedding interval."""

from typing import ClassVar

from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import SeededRuns, StudyScale, federation, jain_of, mean_of, sweep
from penstock.plots import Line, Plot
from penstock.sim.scenario import Scenario

OVERLOAD_FACTORS = (0.8, 1.5, 2.5, 4.0, 6.0, 8.0, 10.0)
INTERVAL_SECONDS = (0.1, 0.25, 0.5, 1.0)


class ThemisSingleSite:
    """Reproduces THEMIS on one site."""

    name: ClassVar[str] = "themis-single-site"
    about: ClassVar[str] = "fairness on one site up to tenfold overload; the shedding interval"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates overloads and shedding intervals."""
        scale = StudyScale.of(effort)
        by_load = sweep(
            scale.some(OVERLOAD_FACTORS),
            lambda load: _one_site(scale, load),
            scale,
            say,
            (0.0, 0.5),
        )
        intervals = scale.some(INTERVAL_SECONDS)
        by_interval = sweep(
            intervals, lambda delta: _six_sites(scale, delta, "rows"), scale, say, (0.5, 0.75)
        )
        counted = sweep(
            intervals, lambda delta: _six_sites(scale, delta, "strata"), scale, say, (0.75, 1.0)
        )
        result = Result(
            "THEMIS: one site, and the shedding interval", "THEMIS, section 7.2, figures 8 and 9"
        )
        result.tables = [_load_table(by_load), _interval_table(by_interval, counted)]
        result.plots = [_load_plot(by_load)]
        headroom = _one_site(scale, 1.0).headroom
        least = min(min(runs.values(jain_of)) for runs in by_load.values())
        instant = min(min(runs.values(lambda r: r.least_jain)) for runs in by_load.values())
        off = max(
            abs(runs.median(mean_of) * load / headroom - 1.0)
            for load, runs in by_load.items()
            if load > 1.2
        )
        result.holds = {
            f"Jain's index is at least 0.99 at every load (least: {least:.4f})": least >= 0.99,
            f"and at every instant (least: {instant:.4f}), so nothing swings": instant >= 0.99,
            f"the mean SIC falls as {headroom:g} of the capacity over demand, to within 10 % "
            f"(furthest off: {off:.1%})": off <= 0.1,
            **_interval_claim("sites that know how many tuples wait, as on Spark", by_interval),
            **_interval_claim("sites that know which tuples wait, as in the paper", counted),
        }
        result.notes = [
            "The paper loads one machine with up to 528,000 tuples/s and reports a mean SIC around "
            "0.1 with Jain's index close to 1; here the load is given as a multiple of capacity.",
            f"A site plans with {headroom:g} of its interval, as a site on Spark does.",
            "A site on Spark knows by its sources' offsets how many tuples wait, and takes them "
            "to be of the strata that came of late. THEMIS' sites look into their input buffers. "
            "In short intervals batches and partial results come in some and not in others, so "
            "what came of late says little of what waits; a site on Spark has intervals of a "
            "second.",
        ]
        result.figures = {
            "load": {str(load): runs.json() for load, runs in by_load.items()},
            "interval": {str(delta): runs.json() for delta, runs in by_interval.items()},
            "interval, strata known": {str(d): runs.json() for d, runs in counted.items()},
        }
        return result


def _one_site(scale: StudyScale, load: float) -> Scenario:
    return federation(scale.many(120, 30), (1, 1), sites=1, overload=load, duration=scale.duration)


def _interval_claim(who: str, by_interval: dict[float, SeededRuns]) -> dict[str, bool]:
    means = [runs.median(mean_of) for runs in by_interval.values()]
    least = min(min(runs.values(jain_of)) for runs in by_interval.values())
    apart = max(means) / min(means) - 1
    return {
        f"the interval does not matter to {who}: mean SIC within 10 % ({apart:.1%}), Jain at least "
        f"0.95 (least: {least:.3f})": apart <= 0.1 and least >= 0.95
    }


def _six_sites(scale: StudyScale, interval: float, knows: str) -> Scenario:
    return federation(
        scale.many(200, 30),
        (1, 3),
        sites=6,
        overload=3.0,
        interval=interval,
        knows=knows,
        duration=scale.duration,
    )


def _load_table(by_load: dict[float, SeededRuns]) -> ResultTable:
    rows = [
        (
            load,
            runs.cell(mean_of),
            min(1.0, 1 / load),
            runs.cell(jain_of),
            min(runs.values(lambda r: r.least_jain)),
        )
        for load, runs in by_load.items()
    ]
    columns = ("load", "mean SIC", "capacity / demand", "Jain", "least Jain at any instant")
    return ResultTable("One site, complex queries (figure 8)", columns, rows)


def _interval_table(
    by_interval: dict[float, SeededRuns], counted: dict[float, SeededRuns]
) -> ResultTable:
    rows = [
        (
            f"{delta * 1000:g} ms",
            runs.cell(mean_of),
            runs.cell(jain_of),
            counted[delta].cell(mean_of),
            counted[delta].cell(jain_of),
        )
        for delta, runs in by_interval.items()
    ]
    columns = ("mean SIC", "Jain", "mean SIC, which wait is known", "Jain, which wait is known")
    title = "Six sites, queries of 1 to 3 fragments (figure 9)"
    return ResultTable(title, ("interval", *columns), rows)


def _load_plot(by_load: dict[float, SeededRuns]) -> Plot:
    loads = list(by_load)
    lines = [
        Line("mean SIC", loads, [r.median(mean_of) for r in by_load.values()]),
        Line("capacity / demand", loads, [min(1.0, 1 / load) for load in loads]),
        Line("Jain", loads, [r.median(jain_of) for r in by_load.values()]),
    ]
    axes = ("demand / capacity (ratio)", "mean SIC (share), Jain's index (0 to 1)")
    return Plot("load", "One site under load (figure 8)", *axes, lines)
