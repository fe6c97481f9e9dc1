"""Measures a run, and holds the figures that a scenario answers with."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.fairness import Spread, jain, spread
from penstock.core.types import Bools, Floats
from penstock.sim.deployment import Deployment
from penstock.sim.scenario import Scenario

if TYPE_CHECKING:
    from penstock.sim.simulation import SimulationStep


@dataclass(frozen=True)
class SimulationOutcome:
    """Holds the figures of a run, without the time before it settled."""

    scenario: Scenario
    deployment: Deployment
    sic: Floats
    """Each query's mean SIC while it was measured; NaN where it never was."""
    times: Floats
    over_time: Floats
    """Every query's SIC at every step, from the start on; NaN while it is not there."""
    utilisation: Floats
    """The share of time that each site worked."""
    shed_share: Floats
    tuples: dict[str, int]

    @property
    def measured(self) -> Floats:
        return self.sic[~np.isnan(self.sic)]

    @property
    def spread(self) -> Spread:
        return spread(self.measured)

    def jain_over_time(self) -> Floats:
        """Jain's index at every step, over the queries that are there."""
        return np.array([_jain(row) for row in self.over_time])

    @property
    def settled(self) -> Bools:
        """The steps that are measured."""
        return np.asarray(self.times > self.scenario.unmeasured)

    def json(self) -> dict[str, Any]:
        figures = asdict(self.spread)
        work = self.deployment.work
        return {
            "mean_sic": figures["mean"],
            "jain": figures["jain"],
            "std": figures["std"],
            "iqr": figures["iqr"],
            "q95_q05": figures["q95_q05"],
            "queries": [
                {"id": name, "kind": kind, "fragments": fragments, "sic": _number(sic)}
                for name, kind, fragments, sic in zip(
                    work.ids,
                    work.kinds,
                    work.fragments.tolist(),
                    self.sic.tolist(),
                    strict=True,
                )
            ],
            "sites": [
                {"id": number, "utilisation": used, "shed_share": shed}
                for number, (used, shed) in enumerate(
                    zip(self.utilisation.tolist(), self.shed_share.tolist(), strict=True)
                )
            ],
            "tuples": self.tuples,
        }


class RunRecorder:
    """Adds a run up, step by step."""

    def __init__(self, scenario: Scenario, deployment: Deployment) -> None:
        self._scenario, self._deployment = scenario, deployment
        self._times: list[float] = []
        self._sic: list[Floats] = []
        strata = len(deployment.strata)
        self._arrived, self._admitted = np.zeros(strata), np.zeros(strata)
        self._shed, self._lost = np.zeros(strata), np.zeros(strata)
        self._busy = np.zeros(deployment.sites)

    def note(self, step: "SimulationStep", sic: Floats) -> None:
        self._times.append(step.now)
        self._sic.append(sic)
        self._arrived += step.arrived
        self._admitted += step.admitted
        self._shed += step.shed
        self._lost += step.lost

    def worked(self, seconds: Floats) -> None:
        self._busy += seconds

    def outcome(self) -> SimulationOutcome:
        times = np.array(self._times)
        over_time = np.where(self._there(times), np.array(self._sic), np.nan)
        sites, site = self._deployment.sites, self._deployment.site
        decided = np.bincount(site, self._admitted + self._shed, sites)
        shed = np.bincount(site, self._shed, sites)
        waiting = self._arrived - self._admitted - self._shed - self._lost
        totals = {
            "arrived": self._arrived,
            "admitted": self._admitted,
            "shed": self._shed,
            "lost": self._lost,
            "waiting": waiting,
        }
        measured = times > self._scenario.unmeasured
        return SimulationOutcome(
            scenario=self._scenario,
            deployment=self._deployment,
            sic=_mean(over_time[measured]),
            times=times,
            over_time=over_time,
            utilisation=np.minimum(self._busy / max(times[-1], 1e-9), 1.0),
            shed_share=np.divide(shed, decided, out=np.zeros(sites), where=decided > 0),
            tuples={name: int(column.sum()) for name, column in totals.items()},
        )

    def any_measured(self) -> bool:
        """Whether a run to the end measures any query."""
        times = self._scenario.interval * np.arange(1.0, self._scenario.steps + 1)
        return bool(self._there(times[times > self._scenario.unmeasured]).any())

    def _there(self, times: Floats) -> Bools:
        """Says when each query is measured: from one STW after it came until it goes."""
        work = self._deployment.work
        now = times[:, None]
        return np.asarray((now >= work.start + self._scenario.stw) & (now <= work.until))


def _mean(rows: Floats) -> Floats:
    there = ~np.isnan(rows)
    count = there.sum(axis=0)
    total = np.where(there, rows, 0.0).sum(axis=0)
    mean = np.full(count.size, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _jain(values: Floats) -> float:
    there = values[~np.isnan(values)]
    return jain(there) if there.size else 1.0


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
