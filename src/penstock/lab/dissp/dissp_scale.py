"""The thesis, figures 6.9 to 6.11: more nodes, more queries, and when one more stops paying."""

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
from penstock.sim.what_if import Answer, Question, SweepPoint

NODES = (9, 12, 15, 18, 21, 24)
QUERIES = (180, 240, 300, 420, 540, 660, 780, 900, 1020, 1200)
BASE_OVERLOAD = 0.9
"""Of 180 queries, such that the base case loses as little as the thesis' seems to."""


class DisspScale:
    """Reproduces the thesis' scalability in nodes and queries."""

    name: ClassVar[str] = "dissp-scale"
    about: ClassVar[str] = "more nodes, more queries, and the trade-off of cost against quality"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates growing federations."""
        scale = StudyScale.of(effort)
        zipf: dict[str, Any] = {"placement": "zipf", "duration": scale.duration}
        nodes = federation(scale.many(300, 45), sites=scale.sites(18), overload=3.0, **zipf)
        capacity = nodes.sites.capacities()[0]
        by_nodes = sweep(
            scale.some(NODES),
            lambda count: with_sites(nodes, scale.sites(count), capacity),
            scale,
            say,
            (0.0, 0.4),
        )
        base = federation(scale.many(180, 18), sites=scale.sites(18), overload=BASE_OVERLOAD)
        room = base.sites.capacities()[0]
        by_queries = sweep(
            QUERIES[::3] if scale.brief else QUERIES,
            lambda count: with_sites(
                federation(round(scale.many(180, 18) * count / 180), **zipf),
                base.sites.count,
                room,
            ),
            scale,
            say,
            (0.4, 1.0),
        )
        return _result(by_nodes, by_queries)


def _result(by_nodes: dict[int, SeededRuns], by_queries: dict[int, SeededRuns]) -> Result:
    result = Result(
        "DISSP: scalability, and cost against quality",
        "thesis, sections 6.3 and 6.4, figures 6.9 to 6.11",
    )
    answer = _answer(by_queries)
    gains, tipping = answer.advantages(), answer.tipping_point()
    best, most = answer.best()
    result.tables = [
        _table("More nodes (figure 6.9)", "nodes", by_nodes),
        _table("More queries (figure 6.10)", "queries", by_queries),
        ResultTable(
            "Cost against quality (figure 6.11)",
            ("queries", "cost falls by", "quality falls by", "advantage"),
            [
                (int(at), f"{1 - 180 / at:.1%}", f"{1 - 180 / at - gain:.1%}", f"{gain:.1%}")
                for at, gain in gains
            ],
        ),
    ]
    result.plots = [
        Plot(
            "trade-off",
            "How much faster a query's cost falls than its quality (figure 6.11)",
            "queries",
            "advantage",
            [Line("advantage", [at for at, _ in gains], [gain for _, gain in gains])],
        )
    ]
    nodes = [runs.median(mean_of) for runs in by_nodes.values()]
    queries = [runs.median(mean_of) for runs in by_queries.values()]
    after = [gain for at, gain in gains if at > best]
    result.holds = {
        "the mean SIC rises with every step in nodes": nodes == sorted(nodes),
        "and falls with every step in queries": queries == sorted(queries, reverse=True),
        f"more queries pay at first: the advantage is largest at {best:g} queries ({most:.1%})": (
            most > 0.02
        ),
        "and shrinks from there on": all(a >= b - 0.01 for a, b in pairwise(after)),
    }
    result.notes = [
        "The thesis has almost 8 % at 300 queries and its tipping point at about 900. Ours: "
        + (f"below 1 % at {tipping:g}." if tipping else "still above 1 % at 1,200 queries.")
        + " Once all sites are overloaded, quality falls exactly as cost does; what is left of the "
        "advantage is what the base case left unused, divided by the number of queries. That the "
        "thesis' advantage reaches zero is overhead a query, which a simulation in tuples has not.",
    ]
    result.figures = {
        "nodes": {str(n): runs.json() for n, runs in by_nodes.items()},
        "queries": {str(n): runs.json() for n, runs in by_queries.items()},
        "advantage": gains,
        "tipping_point": tipping,
    }
    return result


def _answer(by_queries: dict[int, SeededRuns]) -> Answer:
    points = tuple(
        SweepPoint(
            float(n),
            runs.median(mean_of),
            runs.median(jain_of),
            runs.median(lambda r: r.utilisation),
        )
        for n, runs in by_queries.items()
    )
    return Answer(Question("queries", tuple(p.at for p in points)), points, None, None)


def _table(title: str, dial: str, by: dict[int, SeededRuns]) -> ResultTable:
    rows = [
        (
            at,
            runs.cell(mean_of),
            runs.cell(lambda r: r.spread.std),
            runs.cell(lambda r: r.spread.iqr),
            runs.cell(lambda r: r.spread.q95_q05),
            runs.cell(lambda r: r.relative_std),
        )
        for at, runs in by.items()
    ]
    columns = (dial, "mean SIC", "std", "IQR", "Q0.95 - Q0.05", "std / mean")
    return ResultTable(title, columns, rows)
