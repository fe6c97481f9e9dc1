"""THEMIS, section 7.5: against central programs that maximise a sum over queries."""

from typing import ClassVar

import numpy as np

from penstock.core.fairness import jain
from penstock.core.types import Floats
from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import SOURCES_PER_FRAGMENT, TUPLES_PER_SECOND, StudyScale
from penstock.lab.themis.central import Problem, lexicographic_max_min
from penstock.lab.themis.utility_programs import log_utility, output_rates, weighted_throughput
from penstock.plots import Line, Plot
from penstock.sim.deployment import Deployment, deploy
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation

NEARLY_WHOLE_SIC, NEARLY_NO_SIC = 0.999, 0.001


class ThemisRivals:
    """Compares BALANCE-SIC with central programs."""

    name: ClassVar[str] = "themis-rivals"
    about: ClassVar[str] = "against weighted throughput and log-utility, solved centrally"

    def run(self, effort: float, say: Say) -> Result:
        """Solves the simple deployment, and simulates and solves the complex one."""
        scale = StudyScale.of(effort)
        result = Result("THEMIS: against related work", "THEMIS, section 7.5")
        say("simple deployment", 0.0)
        simple = _simple()
        problem = Problem.of(simple, TUPLES_PER_SECOND)
        throughput = problem.sic(weighted_throughput(problem))
        logs = problem.sic(log_utility(problem))
        whole, none = (
            int((throughput > NEARLY_WHOLE_SIC).sum()),
            int((throughput < NEARLY_NO_SIC).sum()),
        )
        result.tables.append(_simple_table(throughput, logs))
        result.plots.append(_simple_plot(throughput, logs))
        rows, ours, theirs = [], [], []
        for number, seed in enumerate(scale.seeds):
            say(f"complex deployment, seed {seed}", (1 + number) / (1 + len(scale.seeds)))
            row = _complex(seed, scale.duration)
            rows.append((seed, *row.values()))
            ours.append(row["BALANCE-SIC"])
            theirs.append(row["log-utility"])
        result.tables.append(
            ResultTable("Jain's index of the complex deployment", ("seed", *row), rows)
        )
        partly = throughput.size - whole - none
        result.holds = {
            f"the linear program gives few queries everything: {whole} of {throughput.size} whole, "
            f"{partly} partly, {none} nothing (paper: 3, 1, 56)": whole <= 4 and none >= 50,
            f"log-utility is fair on the simple deployment (Jain {jain(logs):.3f})": (
                jain(logs) >= 0.99
            ),
            "on the complex deployment BALANCE-SIC is fairer than log-utility, with every seed "
            f"({np.median(ours):.3f} and {np.median(theirs):.3f}; paper: 0.97 and 0.87)": all(
                our > their for our, their in zip(ours, theirs, strict=True)
            ),
        }
        result.notes = [
            "All queries of the simple deployment are alike, so any split has the same total: that "
            "few have everything is the corner of the polytope at which a simplex method stops.",
            "The paper's 0.87 is the index of normalised log-output rates. Ours compares SIC with "
            "SIC; the index of the normalised logarithms is in the last column.",
        ]
        result.figures = {"throughput": throughput.tolist(), "log-utility": logs.tolist()}
        return result


def _simple() -> Deployment:
    """Deploys 60 AVG-all queries: their first fragments on one site, their roots on another.

    The capacity is such that about three queries and a half fit, as in the paper's solution.
    """
    scenario = Scenario.model_validate(
        {
            "sites": {"count": 2, "capacity": 3.4 * 10 * TUPLES_PER_SECOND},
            "queries": [{"kind": "avg-all", "count": 60, "fragments": 2}],
            "placement": "round-robin",
        }
    )
    return deploy(scenario)


def _complex(seed: int, duration: float) -> dict[str, float]:
    """Returns Jain's index of 60 queries at random on four sites.

    20 are AVG-all in three fragments, 20 COV and 20 TOP-5 in two.
    """
    scenario = Scenario.model_validate(
        {
            "seed": seed,
            "duration": duration,
            "sites": {
                "count": 4,
                "capacity": 140 * SOURCES_PER_FRAGMENT * TUPLES_PER_SECOND / 4 / 4.0,
            },
            "queries": [
                {"kind": "avg-all", "count": 20, "fragments": 3},
                {"kind": "cov", "count": 20, "fragments": 2},
                {"kind": "top-5", "count": 20, "fragments": 2},
            ],
        }
    )
    problem = Problem.of(deploy(scenario), TUPLES_PER_SECOND)
    kept = log_utility(problem)
    logs = np.log(np.maximum(output_rates(problem) @ kept, 1.0))
    return {
        "BALANCE-SIC": jain(Simulation(scenario).run().measured),
        "log-utility": jain(problem.sic(kept)),
        "weighted throughput": jain(problem.sic(weighted_throughput(problem))),
        "central max-min": jain(lexicographic_max_min(problem)),
        "log-utility, of log-outputs": jain(logs / logs.max()),
    }


def _simple_table(throughput: Floats, logs: Floats) -> ResultTable:
    def counted(sic: Floats) -> tuple[int, int, int, float, float]:
        whole, none = int((sic > NEARLY_WHOLE_SIC).sum()), int((sic < NEARLY_NO_SIC).sum())
        return whole, sic.size - whole - none, none, float(sic.mean()), jain(sic)

    return ResultTable(
        "60 AVG-all queries on two sites",
        ("program", "whole", "partly", "nothing", "mean SIC", "Jain"),
        [("weighted throughput", *counted(throughput)), ("log-utility", *counted(logs))],
    )


def _simple_plot(throughput: Floats, logs: Floats) -> Plot:
    at = [float(n) for n in range(throughput.size)]
    lines = [
        Line("weighted throughput", at, np.sort(throughput)[::-1].tolist()),
        Line("log-utility", at, np.sort(logs)[::-1].tolist()),
    ]
    return Plot("simple", "Who gets what, 60 alike queries", "query", "SIC", lines)
