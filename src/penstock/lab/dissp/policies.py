"""The thesis, figures 6.5 to 6.8: fair and random shedding over the workloads of table 6.4."""

from typing import ClassVar

from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import RunSummary, SeededRuns, StudyScale, federation, sweep
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
        wanted = [(w, policy) for w in scale.some(list(WORKLOADS)) for policy in POLICIES]
        found = sweep(wanted, lambda point: _scenario(scale, *point), scale, say)
        result = Result(
            "DISSP: fair and random shedding", "thesis, section 6.3, figures 6.5 to 6.8"
        )
        result.tables = [_table(found, figure) for figure in FIGURES]
        result.plots = [_plot(found, figure) for figure in FIGURES]
        result.holds = _claims(found)
        result.notes = [
            "Table 6.4 lists 334 queries of 2 partitions as 2,004 subqueries: it counts the "
            "queries of each of the three kinds.",
            "The thesis finds less quality with more partitions, for the cost of communication. "
            "Here a partial result costs what any tuple costs, which is little, and partitions "
            "even the load of the sites out: the fair shedder's mean stays where it is.",
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
    return Plot(name, figure, "partitions a query", "SIC", lines)
