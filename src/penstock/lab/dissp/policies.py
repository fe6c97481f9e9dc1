"""The thesis, figures 6.5 to 6.8: fair and random shedding over the workloads of table 6.4."""

from typing import ClassVar

from penstock.core.fairness import spread
from penstock.lab.result import Cell, Result, ResultTable, Say
from penstock.lab.study import (
    RunSummary,
    SeededRuns,
    StudyScale,
    central_optimum,
    federation,
    of_a_fragment,
    sweep,
)
from penstock.plots import Line, Plot
from penstock.sim.scenario import Scenario

WORKLOADS: dict[str, tuple[tuple[int, int], int]] = {
    "2": ((2, 2), 334),
    "3": ((3, 3), 220),
    "4": ((4, 4), 170),
    "5": ((5, 5), 134),
    "6": ((6, 6), 112),
    "2-6": ((2, 6), 190),
}
"""Table 6.4: partitions, and queries of each of the three kinds."""
POLICIES = ("random", "balance-sic")
MESSAGE_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
"""What a partial result costs its sender, and again its receiver, in what the tuples of a fragment
cost a second."""
MESSAGES_PER_SECOND = (1 + 5 + 1) / 3
"""Partial results that a fragment sends, on average over the kinds."""
FEWEST, MOST = "2", "6"
"""Partitions of the workloads between which trends are judged."""


def _mean(run: RunSummary) -> float:
    return run.spread.mean


def _iqr(run: RunSummary) -> float:
    return run.spread.iqr


def _std(run: RunSummary) -> float:
    return run.spread.std


def _q95_q05(run: RunSummary) -> float:
    return run.spread.q95_q05


FIGURES = {
    "mean (6.5)": _mean,
    "IQR (6.6)": _iqr,
    "std (6.7)": _std,
    "Q0.95 - Q0.05 (6.8)": _q95_q05,
}


class DisspPolicies:
    """Compares the thesis' policies over its workloads."""

    name: ClassVar[str] = "dissp-policies"
    about: ClassVar[str] = "fair against random shedding: mean, IQR, std, Q0.95 - Q0.05"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates each workload under each policy."""
        scale = StudyScale.of(effort)
        wanted = [(w, policy) for w in _workloads(scale) for policy in POLICIES]
        found = sweep(wanted, lambda point: _scenario(scale, *point), scale, say, (0.0, 0.6))
        dear = sweep(
            [(share, label) for share in scale.some(MESSAGE_SHARES) for label in (FEWEST, MOST)],
            lambda point: _with_messages(scale, *point),
            scale,
            say,
            (0.6, 0.9),
        )
        say("central optimum", 0.9)
        best = {label: _optimum(scale, label) for label in (FEWEST, MOST)}
        result = Result(
            "DISSP: fair and random shedding", "thesis, section 6.3, figures 6.5 to 6.8"
        )
        result.tables = [
            *(_table(found, figure) for figure in FIGURES),
            _message_table(dear),
            _optimum_table(found, best),
        ]
        result.plots = [_plot(found, figure) for figure in FIGURES]
        result.holds = {**_claims(found), **_trends(found, dear, best)}
        result.notes = [
            "Table 6.4 lists 334 queries of 2 partitions as 2,004 subqueries: it counts the "
            "queries of each of the three kinds.",
            "The thesis finds less quality and more dispersion with more partitions, for the cost "
            "of communication, of which it gives no figure. Here a partial result costs what its "
            "operators cost, of which one sends it, and a fragment sends one to five a second and "
            "takes in hundreds or thousands of tuples: what it costs does not show. The table "
            "tries messages that cost more.",
            "Dispersion falls here, and it does for the central optimum, too: with more partitions "
            "a query spans more sites, and each of them can lift it. THEMIS, by the same authors "
            "four years later, says so as well (figure 11). That the thesis' rises must come of "
            "something that differs between queries and grows with their partitions, and that a "
            "simulation in which all links cost the same does not have.",
            "With two partitions and Zipf placement most queries of the random shedder are equally "
            "poor, which makes for a small IQR; beside its mean it is the larger one.",
        ]
        result.figures = {" ".join(key): runs.json() for key, runs in found.items()}
        return result


def _scenario(scale: StudyScale, label: str, policy: str) -> Scenario:
    fragments, each = WORKLOADS[label]
    return federation(
        scale.many(3 * each, 24),
        fragments,
        sites=scale.sites(18),
        placement="zipf",
        policy=policy,
        duration=scale.duration,
    )


def _workloads(scale: StudyScale) -> list[str]:
    return [FEWEST, MOST] if scale.brief else list(WORKLOADS)


def _with_messages(scale: StudyScale, share: float, label: str) -> Scenario:
    costs = {"message": of_a_fragment(share) / MESSAGES_PER_SECOND}
    return _scenario(scale, label, "balance-sic").changed(costs=costs)


def _optimum(scale: StudyScale, label: str) -> RunSummary:
    """Returns what a planner who knows everything would reach, with the first seed."""
    best = central_optimum(_scenario(scale, label, "balance-sic"), scale.seeds[0])
    return RunSummary(spread(best), 0.0, 0.0)


def _trends(
    found: dict[tuple[str, str], SeededRuns],
    dear: dict[tuple[float, str], SeededRuns],
    best: dict[str, RunSummary],
) -> dict[str, bool]:
    """Judges what the thesis says of more partitions."""

    def at(label: str, figure: str) -> float:
        return found[label, "balance-sic"].median(FIGURES[figure])

    claims = {
        f"{figure} {'falls' if falls else 'rises'} from {FEWEST} partitions to {MOST}, as in the "
        f"thesis ({at(FEWEST, figure):.3f} and {at(MOST, figure):.3f})": (
            (at(MOST, figure) < at(FEWEST, figure)) == falls
        )
        for figure, falls in zip(FIGURES, (True, False, False, False), strict=True)
    }
    shares = list(dict.fromkeys(share for share, _ in dear))
    falling = [s for s in shares if dear[s, MOST].median(_mean) < dear[s, FEWEST].median(_mean)]
    rising = [s for s in shares if dear[s, MOST].median(_std) > dear[s, FEWEST].median(_std)]
    told = f"from {min(falling):.0%} on" if falling else "nowhere"
    claims[
        "the mean falls with partitions where a message costs enough of what a fragment's tuples "
        f"cost a second ({told}, of {', '.join(f'{s:.0%}' for s in shares)})"
    ] = bool(falling)
    told = f"from {min(rising):.0%} on" if rising else "nowhere"
    claims[f"and the standard deviation rises ({told})"] = bool(rising)
    two, six = best[FEWEST].spread.std, best[MOST].spread.std
    claims[
        "the central optimum's standard deviation falls with partitions as ours does "
        f"({two:.3f} and {six:.3f})"
    ] = six < two
    return claims


def _message_table(dear: dict[tuple[float, str], SeededRuns]) -> ResultTable:
    rows = [
        (f"{share:.0%}", label, runs.cell(_mean), runs.cell(_std), runs.cell(_iqr))
        for (share, label), runs in dear.items()
    ]
    return ResultTable(
        "What a message costs, in what a fragment's tuples cost a second",
        ("cost", "partitions", "mean SIC", "std", "IQR"),
        rows,
    )


def _optimum_table(
    found: dict[tuple[str, str], SeededRuns], best: dict[str, RunSummary]
) -> ResultTable:
    rows: list[tuple[Cell, ...]] = [
        (label, name, *(figure(run) for figure in FIGURES.values()))
        for label, planned in best.items()
        for name, run in (
            ("central optimum", planned),
            ("balance-sic", found[label, "balance-sic"].runs[0]),
        )
    ]
    return ResultTable(
        "The central optimum beside the fair shedder, first seed",
        ("partitions", "who", *FIGURES),
        rows,
    )


def _claims(found: dict[tuple[str, str], SeededRuns]) -> dict[str, bool]:
    def all_seeds(better: str, worse: str, of: str) -> bool:
        return all(
            a > b
            for label in _labels(found)
            for a, b in zip(
                found[label, better].values(FIGURES[of]),
                found[label, worse].values(FIGURES[of]),
                strict=True,
            )
        )

    return {
        "the fair shedder's mean is higher for every workload and seed": all_seeds(
            "balance-sic", "random", "mean (6.5)"
        ),
        **{
            f"its {figure} is lower for every workload and seed": all_seeds(
                "random", "balance-sic", figure
            )
            for figure in list(FIGURES)[1:]
        },
    }


def _labels(found: dict[tuple[str, str], SeededRuns]) -> list[str]:
    return list(dict.fromkeys(label for label, _ in found))


def _table(found: dict[tuple[str, str], SeededRuns], figure: str) -> ResultTable:
    rows = [
        (label, *(found[label, policy].cell(FIGURES[figure]) for policy in POLICIES))
        for label in _labels(found)
    ]
    return ResultTable(figure, ("partitions", *POLICIES), rows)


def _plot(found: dict[tuple[str, str], SeededRuns], figure: str) -> Plot:
    labels = [label for label in _labels(found) if "-" not in label]
    lines = []
    for policy in POLICIES:
        runs = [found[label, policy] for label in labels]
        lines.append(
            Line(
                policy,
                [float(label) for label in labels],
                [r.median(FIGURES[figure]) for r in runs],
                [min(r.values(FIGURES[figure])) for r in runs],
                [max(r.values(FIGURES[figure])) for r in runs],
            )
        )
    name = figure.split("(")[1].rstrip(")").replace(".", "-")
    title = f"SIC over the queries: {figure}"
    return Plot(name, title, "partitions of a query (number)", "SIC (share)", lines)
