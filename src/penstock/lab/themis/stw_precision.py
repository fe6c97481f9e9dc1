"""THEMIS, section 7, "Experimental set-up": how exact is SIC over STWs of 10 and 100 s?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.core.types import Floats
from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import TUPLES_PER_SECOND, StudyScale
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation

STW_SECONDS = (10.0, 100.0)
PAPER = {10.0: (0.9700, 0.0064), 100.0: (1.0086, 0.0034)}
"""The mean over queries, and its spread."""
QUERIES, FRAGMENTS, SITES = 10, 2, 4
MOST_OFF = 0.03
"""How far from 1 the paper's mean is at most."""
SHORT_STW_SHARE = 0.1
"""A brief run has STWs that are shorter by this factor."""


@dataclass(frozen=True)
class PrecisionCase:
    """Is what ten queries without overload have, summed over the STW and not held to 1."""

    stw: float
    bursts: bool
    mean: float
    over_queries: float
    """The standard deviation of the queries' means."""
    over_time: float
    """The standard deviation over time, of a query on average."""


class ThemisStw:
    """Reproduces the precision of the STW."""

    name: ClassVar[str] = "themis-stw"
    about: ClassVar[str] = "ten TOP-5 queries without overload: SIC over STWs of 10 and 100 s"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates both STWs, with steady sources and with bursts."""
        shorter = SHORT_STW_SHARE if StudyScale.of(effort).brief else 1.0
        wanted = [(stw, bursts) for bursts in (False, True) for stw in STW_SECONDS]
        cases = []
        for number, (stw, bursts) in enumerate(wanted):
            say(f"STW of {stw:g} s{', bursts' if bursts else ''}", number / len(wanted))
            cases.append(_measured(stw, bursts, shorter))
        return _result(cases)


def _measured(stw: float, bursts: bool, shorter: float) -> PrecisionCase:
    scenario = _scenario(stw * shorter, bursts)
    simulation = Simulation(scenario)
    rows: list[Floats] = []
    for _ in range(scenario.steps):
        simulation.step()
        if simulation.now > scenario.unmeasured:
            rows.append(simulation.summed_sic.copy())
    found = np.array(rows)
    means = found.mean(axis=0)
    return PrecisionCase(
        stw, bursts, float(means.mean()), float(means.std()), float(found.std(axis=0).mean())
    )


def _scenario(stw: float, bursts: bool) -> Scenario:
    return Scenario.model_validate(
        {
            "stw": stw,
            "duration": 4 * stw,
            "warm_up": 2 * stw,
            "sites": {
                "count": SITES,
                "capacity": QUERIES * FRAGMENTS * 20 * 10 * TUPLES_PER_SECOND,
            },
            "queries": [{"kind": "top-5", "count": QUERIES, "fragments": FRAGMENTS}],
            "sources": {"burst": {"share": 0.1, "factor": 10} if bursts else None},
        }
    )


def _result(cases: list[PrecisionCase]) -> Result:
    steady = [case for case in cases if not case.bursts]
    off = {case.stw: abs(case.mean - 1.0) for case in cases if not case.bursts}
    return Result(
        "THEMIS: the precision of SIC over the STW",
        'THEMIS, section 7, "Experimental set-up"',
        tables=[
            ResultTable(
                "Ten TOP-5 queries of two fragments, nothing shed",
                (
                    "STW, s",
                    "sources",
                    "mean SIC",
                    "std over queries",
                    "std over time",
                    "paper",
                ),
                [
                    (
                        case.stw,
                        "bursts" if case.bursts else "steady",
                        case.mean,
                        case.over_queries,
                        case.over_time,
                        None if case.bursts else "{:.4f} ± {:.4f}".format(*PAPER[case.stw]),
                    )
                    for case in cases
                ],
            )
        ],
        holds={
            **{
                f"over an STW of {case.stw:g} s the mean SIC is 1 to within {MOST_OFF:g}, as in "
                f"the paper ({case.mean:.4f}; paper: {PAPER[case.stw][0]:.4f})": (
                    abs(case.mean - 1.0) <= MOST_OFF
                )
                for case in steady
            },
            "a longer STW is at least as exact "
            f"(off by {off[STW_SECONDS[0]]:.4f} and {off[STW_SECONDS[1]]:.4f})": (
                off[STW_SECONDS[1]] <= off[STW_SECONDS[0]]
            ),
        },
        notes=[
            "A tuple's SIC follows from how many came of its source in the STW before, and the "
            "results' SIC is summed over the STW that ends now: where rates move, the two do not "
            "match, and the sum may be above 1. Everywhere else Penstock holds it to 1; here it "
            "is shown as it is.",
            "With steady sources what is left is that the results of the last second come after "
            "the tuples that they are made of.",
        ],
        figures={"cases": [vars(case) for case in cases]},
    )
