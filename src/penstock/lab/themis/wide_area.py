"""THEMIS, figure 14: bursts and a wide-area network."""

from typing import Any, ClassVar

from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import StudyScale, federation, jain_of, mean_of, sweep
from penstock.sim.scenario import Scenario

BURSTS = {"share": 0.1, "factor": 10}
CASES: dict[str, tuple[float, dict[str, Any] | None]] = {
    "LAN": (0.005, None),
    "LAN, bursts": (0.005, BURSTS),
    "WAN": (0.05, None),
    "WAN, bursts": (0.05, BURSTS),
    "WAN, bursts that add load": (0.05, {**BURSTS, "keep_mean": False}),
}


class ThemisWideArea:
    """Reproduces THEMIS over a wide area."""

    name: ClassVar[str] = "themis-wide-area"
    about: ClassVar[str] = "bursty sources and 50 ms between sites"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates latencies between sites, with and without bursts."""
        scale = StudyScale.of(effort)
        found = sweep(list(CASES), lambda case: _four_sites(scale, case), scale, say)
        calm, wide = found["LAN"].median(mean_of), found["WAN, bursts"].median(mean_of)
        least = min(found["WAN, bursts"].values(jain_of))
        raised = found["WAN, bursts that add load"].median(mean_of)
        return Result(
            "THEMIS: bursts and wide-area latency",
            "THEMIS, section 7.4, figure 14",
            tables=[
                ResultTable(
                    "Four sites, queries of two fragments",
                    ("case", "mean SIC", "Jain", "least Jain at any instant"),
                    [
                        (
                            case,
                            runs.cell(mean_of),
                            runs.cell(jain_of),
                            min(runs.values(lambda r: r.least_jain)),
                        )
                        for case, runs in found.items()
                    ],
                )
            ],
            holds={
                "with 50 ms and bursts that keep the mean load, the mean SIC is within 10 % of the "
                f"LAN's without bursts ({wide:.3f} and {calm:.3f})": abs(wide / calm - 1) <= 0.1,
                f"and Jain's index at least 0.95 (least: {least:.3f})": least >= 0.95,
                "with bursts as the paper words them, ten times the usual rate for a tenth of the "
                f"time, it is within 10 %, too ({raised:.3f})": abs(raised / calm - 1) <= 0.1,
            },
            notes=[
                "A source that sends ten times as much for a tenth of its time nearly doubles its "
                "load. The paper reports a similar SIC with and without bursts, which is only "
                "possible where the mean load is kept; both are shown."
            ],
            figures={case: runs.json() for case, runs in found.items()},
        )


def _four_sites(scale: StudyScale, case: str) -> Scenario:
    latency, burst = CASES[case]
    return federation(
        scale.many(240, 45),
        (2, 2),
        sites=4,
        overload=3.0,
        latency=latency,
        duration=scale.duration,
        sources={"burst": burst},
    )
