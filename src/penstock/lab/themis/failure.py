"""Lets a site fail for twenty seconds: what is lost, how soon it is back, how others fare."""

from typing import ClassVar

import numpy as np

from penstock.core.fairness import jain
from penstock.core.types import Bools, Floats
from penstock.lab.result import Result, ResultTable, Say
from penstock.lab.study import StudyScale, federation
from penstock.plots import Line, Plot
from penstock.sim.deployment import Deployment
from penstock.sim.outcome import SimulationOutcome
from penstock.sim.simulation import Simulation

FAILS_AT_SECONDS, FAILURE_SECONDS = 40.0, 20.0
FAILING_SITE = 0
"""The site that fails."""


class ThemisFailure:
    """Simulates the failure of a site."""

    name: ClassVar[str] = "themis-failure"
    about: ClassVar[str] = "a site fails for 20 s: what is lost, and how soon it is back"

    def run(self, effort: float, say: Say) -> Result:
        """Runs calm and overloaded federations in which a site fails."""
        scale = StudyScale.of(effort)
        result = Result("A site fails", "beyond THEMIS: its model of loss (section 4)")
        rows, drops, back, fair = [], [], [], []
        for number, seed in enumerate(scale.seeds):
            say(f"seed {seed}", number / len(scale.seeds))
            calm, busy = (_run(scale, seed, overload) for overload in (0.7, 3.0))
            drop = _furthest_from_loss(calm)
            again = max(_furthest_from_before(calm), _furthest_from_before(busy))
            others = _least_jain_of_others(busy)
            rows.append((seed, drop, again, others))
            drops.append(drop)
            back.append(again)
            fair.append(others)
        result.tables = [
            ResultTable(
                "By seed",
                (
                    "seed",
                    "SIC lost, furthest from what the site carried",
                    "SIC after two STWs, furthest from before",
                    "least Jain of the others",
                ),
                rows,
            )
        ]
        result.plots = [_plot(busy)]
        result.holds = {
            "without overload each query's SIC drops by exactly what the site carried of it, to "
            f"within 0.02 (furthest off: {max(drops):.3f})": max(drops) <= 0.02,
            "two STWs after the site is back every query is where it was, to within 0.1 "
            f"(furthest off: {max(back):.3f})": max(back) <= 0.1,
            f"under overload the others stay fair: Jain at least 0.95 at every instant (least: "
            f"{min(fair):.3f})": min(fair) >= 0.95,
        }
        result.notes = [
            "Under overload the sites that are left lift what remains of a query that lost a "
            "fragment, so its SIC drops by less than the fragment's share."
        ]
        result.figures = {"rows": [list(map(float, row)) for row in rows]}
        return result


def _run(scale: StudyScale, seed: int, overload: float) -> SimulationOutcome:
    scenario = federation(
        scale.many(180, 24),
        (1, 3),
        sites=4 if scale.brief else 6,
        overload=overload,
        seed=seed,
        placement="by-load",
        duration=FAILS_AT_SECONDS + FAILURE_SECONDS + 25.0,
        warm_up=15.0,
        failures=[{"site": FAILING_SITE, "at": FAILS_AT_SECONDS, "for": FAILURE_SECONDS}],
    )
    return Simulation(scenario).run()


def lost_share(deployment: Deployment) -> Floats:
    """Returns the share of each query's sources that reach it through the failing site."""
    work = deployment.work
    cut = deployment.site_of == FAILING_SITE
    for fragment in np.flatnonzero(~work.root):  # a fragment comes after the one it feeds
        cut[fragment] |= cut[work.down[fragment]]
    return np.asarray(np.bincount(work.query, np.where(cut, work.share, 0.0)), dtype=np.float64)


def _at(outcome: SimulationOutcome, time: float) -> Floats:
    return np.asarray(outcome.over_time[int(np.argmin(np.abs(outcome.times - time)))])


def _furthest_from_loss(outcome: SimulationOutcome) -> float:
    during = _at(outcome, FAILS_AT_SECONDS + FAILURE_SECONDS - 0.5)
    return float(np.abs(during - (1.0 - lost_share(outcome.deployment))).max())


def _furthest_from_before(outcome: SimulationOutcome) -> float:
    """Compares means over two seconds, since results come once a second."""
    before, after = (
        np.mean([_at(outcome, end - ago) for ago in np.arange(0.0, 2.0, 0.25)], axis=0)
        for end in (
            FAILS_AT_SECONDS - 0.5,
            FAILS_AT_SECONDS + FAILURE_SECONDS + 2 * outcome.scenario.stw + 2.0,
        )
    )
    return float(np.abs(after - before).max())


def _others(outcome: SimulationOutcome) -> Bools:
    return np.asarray(lost_share(outcome.deployment) == 0.0)


def _least_jain_of_others(outcome: SimulationOutcome) -> float:
    rows = outcome.over_time[outcome.settled][:, _others(outcome)]
    return min(jain(row) for row in rows)


def _plot(outcome: SimulationOutcome) -> Plot:
    others = _others(outcome)
    rows, times = outcome.over_time[outcome.settled], outcome.times[outcome.settled]
    lines = [
        Line(label, times.tolist(), rows[:, who].mean(axis=1).tolist())
        for label, who in (("on the site", ~others), ("elsewhere", others))
    ]
    title = "Mean SIC of queries while a site is down"
    down = [("the site is down", FAILS_AT_SECONDS, FAILS_AT_SECONDS + FAILURE_SECONDS)]
    return Plot("sic", title, "time (s)", "mean SIC (share)", lines, spans=down)
