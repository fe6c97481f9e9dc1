"""THEMIS, figures 12 and 13: more sites, more queries."""

from itertools import pairwise
from typing import Any, ClassVar

from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import (
    SeededRuns,
    StudyScale,
    federation,
    jain_of,
    mean_of,
    sweep,
    with_sites,
)
from penstock.plots import Line, Plot

SITES = (9, 12, 15, 18, 21, 24)
QUERIES = (150, 300, 450, 600, 750, 900)


class ThemisScale:
    """Reproduces THEMIS' scalability in sites and queries."""

    name: ClassVar[str] = "themis-scale"
    about: ClassVar[str] = "fairness with more sites and with more queries"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates growing federations."""
        scale = StudyScale.of(effort)
        base = federation(
            scale.many(500, 60), sites=scale.sites(18), overload=3.0, **_common(scale)
        )
        capacity = base.sites.capacities()[0]
        by_sites = sweep(
            scale.some(SITES),
            lambda sites: with_sites(base, scale.sites(sites), capacity),
            scale,
            say,
            (0.0, 0.5),
        )
        by_queries = sweep(
            scale.some(QUERIES),
            lambda queries: with_sites(
                federation(scale.many(queries, 18), **_common(scale)), scale.sites(18), capacity
            ),
            scale,
            say,
            (0.5, 1.0),
        )
        return _result(by_sites, by_queries)


def _common(scale: StudyScale) -> dict[str, Any]:
    return {"placement": "zipf", "duration": scale.duration}


def _result(by_sites: dict[int, SeededRuns], by_queries: dict[int, SeededRuns]) -> Result:
    result = Result("THEMIS: scalability", "THEMIS, section 7.3, figures 12 and 13")
    result.tables = [
        _table("500 queries on more and more sites (figure 12)", "sites", by_sites),
        _table("More and more queries on 18 sites (figure 13)", "queries", by_queries),
    ]
    result.plots = [_plot("sites", by_sites), _plot("queries", by_queries)]
    more_sites = [runs.median(mean_of) for runs in by_sites.values()]
    more_queries = [runs.median(mean_of) for runs in by_queries.values()]
    fair = min(runs.median(jain_of) for runs in (*by_sites.values(), *by_queries.values()))
    result.holds = {
        "the mean SIC rises with every step in sites": _rises(more_sites),
        "and falls with every step in queries": _rises(more_queries[::-1]),
        f"the loss is shared fairly throughout: Jain at least 0.9 (least: {fair:.3f})": fair >= 0.9,
    }
    result.notes = [
        "Queries of one fragment on a site that Zipf placement leaves idle have a SIC near 1 "
        "whatever is done elsewhere; they hold Jain's index below 1 where load is light."
    ]
    result.figures = {
        "sites": {str(n): runs.json() for n, runs in by_sites.items()},
        "queries": {str(n): runs.json() for n, runs in by_queries.items()},
    }
    return result


def _rises(values: list[float]) -> bool:
    return all(after > before for before, after in pairwise(values))


def _table(title: str, dial: str, by: dict[int, SeededRuns]) -> ResultTable:
    rows = [
        (
            at,
            runs.cell(mean_of),
            runs.cell(jain_of),
            runs.cell(lambda r: r.spread.std),
            runs.cell(lambda r: r.relative_std),
        )
        for at, runs in by.items()
    ]
    return ResultTable(title, (dial, "mean SIC", "Jain", "std", "std / mean"), rows)


def _plot(dial: str, by: dict[int, SeededRuns]) -> Plot:
    at = [float(n) for n in by]
    lines = [
        Line("mean SIC", at, [runs.median(mean_of) for runs in by.values()]),
        Line("Jain", at, [runs.median(jain_of) for runs in by.values()]),
    ]
    return Plot(
        dial, f"More {dial}", f"{dial} (number)", "mean SIC (share), Jain's index (0 to 1)", lines
    )
