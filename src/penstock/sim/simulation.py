"""Runs the simulation, in steps of one shedding interval, with all but deciding in columns.

In a step, tuples arrive from sources and partial results from other sites; each site that is free
sheds from its input buffer as its controller decides, and works on what it admitted for as long as
its capacity makes it; windows that close hand on what they hold, with all of its SIC; coordinators
add up results and tell the sites. Nothing depends on the machine: the same scenario gives the same
run, bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.core.controller import Controller
from penstock.core.projection import project
from penstock.core.settings import QueryTerms, Settings
from penstock.core.types import Bools, CoordinatorNews, Floats, Strata
from penstock.errors import PenstockError
from penstock.policy import get
from penstock.sim.arrivals import Arrivals
from penstock.sim.deployment import Deployment, deploy
from penstock.sim.failures import Failures
from penstock.sim.network import Coordinators, Mail, Sliding
from penstock.sim.outcome import RunRecorder, SimulationOutcome
from penstock.sim.published import project_as_published
from penstock.sim.query_graph import WINDOW_SECONDS
from penstock.sim.scenario import Scenario
from penstock.sim.simulated_site import SimulatedSite, SiteMachine
from penstock.sim.whole_unit_gate import WholeUnitGate

TellProgress = Callable[[float], None]
"""Is told which part of a run is done."""


@dataclass(frozen=True)
class SimulationStep:
    """Says what happened in one interval, by stratum, so that tests can check the laws."""

    now: float
    worked: Bools
    """Strata of sites that shed in this step."""
    arrived: Floats
    admitted: Floats
    shed: Floats
    lost: Floats
    """Tuples that waited at a site that failed."""
    sic_in: float
    """The SIC that entered windows."""
    sic_out: float
    """The SIC that left windows: to other sites, as results, or lost with a site."""
    sic_held: float
    """The SIC in windows that have not closed."""


class Simulation:
    """Is one run; ``step`` moves it by an interval, ``run`` to its end."""

    def __init__(
        self,
        scenario: Scenario,
        deployment: Deployment | None = None,
        controller: Controller | None = None,
    ) -> None:
        self.scenario = scenario
        self.deployment = deployed = deploy(scenario) if deployment is None else deployment
        work, delta = deployed.work, scenario.interval
        slots = max(1, round(scenario.stw / delta))
        self._arrivals = Arrivals(scenario, deployed)
        self._failures = Failures(scenario.failures, deployed.sites, work.ids)
        latency = scenario.sites.latency
        self._mail = Mail(work.query.size, delta, latency)
        self._result_mail = Mail(len(work.ids), delta, latency)
        self._coordinators = Coordinators(len(work.ids), slots, delta, latency)
        self._carried = Sliding(slots, len(deployed.strata))
        unit = np.where(deployed.partial, 1.0, self._arrivals.batch)
        self._gate = WholeUnitGate(unit, scenario.policy == "random", scenario.seed)
        self._sites = _sites(scenario, deployed, controller or controller_of(scenario, deployed))
        self._slices = deployed.slices()
        self._told_to = [sorted({s.query for s in deployed.strata[mine]}) for mine in self._slices]
        self._source_stratum, self._partial_stratum = (
            deployed.source_stratum(),
            deployed.partial_stratum(),
        )
        self._phase = np.random.default_rng([scenario.seed, 4]).random(work.query.size)
        self._waiting = np.zeros(len(deployed.strata))
        self._waiting_sic = np.zeros(len(deployed.strata))
        self._held, self._held_sic = np.zeros(work.query.size), np.zeros(work.query.size)
        self._busy_until = np.zeros(deployed.sites)
        self._to_send = np.zeros(deployed.sites)
        self._alive = np.ones(deployed.sites, dtype=np.bool_)
        self._number = 0
        self.recorder = RunRecorder(scenario, deployed)

    @property
    def now(self) -> float:
        return self._number * self.scenario.interval

    @property
    def sic(self) -> Floats:
        """The SIC of each query, as its coordinator knows it."""
        return self._coordinators.sic

    @property
    def summed_sic(self) -> Floats:
        """The SIC of each query's results, summed over the STW and not held to 1."""
        return self._coordinators.summed

    def run(self, progress: TellProgress = lambda _: None) -> SimulationOutcome:
        if not self.recorder.any_measured():
            raise PenstockError(
                f"no query lives for an STW of {self.scenario.stw:g} s in what is measured, from "
                f"{self.scenario.unmeasured:g} s to {self.scenario.duration:g} s: look at 'from' "
                "and 'until' of the queries, or let the run last longer"
            )
        for number in range(self.scenario.steps):
            self.step()
            if number % 20 == 0:
                progress(number / self.scenario.steps)
        progress(1.0)
        return self.recorder.outcome()

    def step(self) -> SimulationStep:
        """Moves time to the end of the next interval, when sites shed."""
        self._number += 1
        lost_sic = self._fail()
        left = self._close_windows()
        arrived = self._receive()
        lost = np.where(self._alive[self.deployment.site], 0.0, self._waiting)
        self._waiting -= lost
        self._waiting_sic[lost > 0] = 0.0
        free = self._alive & (self._busy_until < self.now + self.scenario.interval)
        worked = free[self.deployment.site]
        rates, worth = self._decide(free)
        admitted = self._gate.admit(self._waiting, rates, worked)
        self._work(free, admitted)
        entered = self._enter(admitted, worth, worked)
        self._tell()
        shed = np.where(worked, self._waiting - admitted, 0.0)
        self._waiting[worked] = self._waiting_sic[worked] = 0.0
        step = SimulationStep(
            self.now,
            worked,
            arrived,
            admitted,
            shed,
            lost,
            entered,
            left + lost_sic,
            float(self._held_sic.sum()),
        )
        self.recorder.note(step, self._coordinators.sic)
        return step

    def _receive(self) -> Floats:
        """Takes in source tuples, and partial results with the SIC that they carry."""
        arrived = np.zeros(self._waiting.size)
        arrived[self._source_stratum] = self._arrivals.of_step(self.now)
        sent = self._partial_stratum >= 0
        tuples, sic = self._mail.arrive()
        arrived[self._partial_stratum[sent]] = tuples[sent]
        carried = np.zeros(self._waiting.size)
        carried[self._partial_stratum[sent]] = sic[sent]
        self._waiting += arrived
        self._waiting_sic += carried
        self._shares = self._carried.add(carried)
        return arrived

    def _fail(self) -> float:
        """Lets sites go down, which lose their windows and memory; returns the SIC that is lost."""
        alive = self._failures.alive(self.now)
        gone = np.flatnonzero(self._alive & ~alive)
        self._alive = alive
        lost = 0.0
        for site in gone:
            self._sites[site].reset()
            self._busy_until[site] = 0.0
            mine = self.deployment.site_of == site
            lost += float(self._held_sic[mine].sum())
            self._held[mine] = self._held_sic[mine] = 0.0
        return lost

    def _decide(self, free: Bools) -> tuple[Floats, Floats]:
        rates, worth = np.ones(self._waiting.size), np.zeros(self._waiting.size)
        news = self._news()
        for number in np.flatnonzero(free):
            mine, site = self._slices[number], self._sites[number]
            told = {name: news[name] for name in self._told_to[number]} if news else {}
            start = max(self.now, self._busy_until[number])
            shares = self._shares[mine][site.partials]
            rates[mine], worth[mine] = site.decide(start, self._waiting[mine].copy(), shares, told)
        return rates, worth

    def _news(self) -> dict[str, CoordinatorNews]:
        if not self.scenario.update_sic:
            return {}
        ids, (sic, at) = self.deployment.work.ids, self._coordinators.news()
        return dict(zip(ids, map(CoordinatorNews, sic.tolist(), at.tolist()), strict=True))

    def _work(self, free: Bools, admitted: Floats) -> None:
        """Lets sites work on what they admitted; they are busy until it is done."""
        deployed = self.deployment
        tuples = np.bincount(deployed.site, admitted * deployed.cost, deployed.sites)
        idle = deployed.idle_cost * self.scenario.interval
        seconds = (tuples + self._to_send + idle) / deployed.capacity
        start = np.maximum(self.now, self._busy_until)
        self._busy_until = np.where(free, start + seconds, self._busy_until)
        self._to_send[free] = 0.0
        for number in np.flatnonzero(free):
            mine = self._slices[number]
            self._sites[number].finish(
                float(seconds[number]), self._waiting[mine].copy(), admitted[mine]
            )
        self.recorder.worked(np.where(free, seconds, 0.0))

    def _enter(self, admitted: Floats, worth: Floats, worked: Bools) -> float:
        """Puts admitted tuples, with their SIC, into the windows of their fragments."""
        deployed = self.deployment
        part = np.divide(
            admitted, self._waiting, out=np.zeros(admitted.size), where=worked & (admitted > 0)
        )
        sic = np.where(deployed.partial, self._waiting_sic * part, worth * admitted)
        size = self._held.size
        self._held += np.bincount(deployed.fragment, admitted, size)
        self._held_sic += np.bincount(deployed.fragment, sic, size)
        return float(sic.sum())

    def _close_windows(self) -> float:
        """Once a second each fragment hands on what its window holds, and all its SIC (law 2)."""
        work, site = self.deployment.work, self.deployment.site_of
        since = (self.now / WINDOW_SECONDS + self._phase) % 1.0 * WINDOW_SECONDS
        closes = (since < self.scenario.interval) & self._alive[site] & (self._held > 0)
        fragments = np.flatnonzero(closes)
        tuples = np.minimum(self._held[fragments], work.emits[fragments])
        sic, ago, root = self._held_sic[fragments], since[fragments], work.root[fragments]
        inner = ~root
        sending = tuples * self.deployment.sending[fragments]
        self._to_send += np.bincount(site[fragments], sending, self.deployment.sites)
        self._mail.send(fragments[inner], tuples[inner], sic[inner], ago[inner])
        self._result_mail.send(work.query[fragments[root]], tuples[root], sic[root], ago[root])
        self._held[fragments] = self._held_sic[fragments] = 0.0
        return float(sic.sum())

    def _tell(self) -> None:
        _, sic = self._result_mail.arrive()
        self._coordinators.hear(self.now, sic, self._failures.silent(self.now))


def _sites(scenario: Scenario, deployed: Deployment, controller: Controller) -> list[SimulatedSite]:
    share = np.where(deployed.partial, 0.0, deployed.work.share[deployed.origin])
    sites = zip(
        deployed.slices(), deployed.capacity.tolist(), deployed.idle_cost.tolist(), strict=True
    )
    return [
        SimulatedSite(
            Strata(deployed.strata[mine]),
            share[mine],
            deployed.partial[mine],
            controller,
            SiteMachine(capacity, deployed.cost[mine], idle, scenario.knows == "strata"),
        )
        for mine, capacity, idle in sites
    ]


def controller_of(scenario: Scenario, deployed: Deployment) -> Controller:
    """Makes the controller of every site: Spark's, unless the scenario asks for a rival."""
    policy = {"random": "uniform", "as-published": "balance-sic"}.get(scenario.policy)
    work = deployed.work
    settings = Settings(
        interval=scenario.interval,
        stw=scenario.stw,
        policy=get(policy or scenario.policy),
        headroom=scenario.headroom,
        terms={
            name: QueryTerms(weight=weight)
            for name, weight in zip(work.ids, work.weight.tolist(), strict=True)
            if weight != 1.0
        },
    )
    published = scenario.policy == "as-published"
    return Controller(settings, project=project_as_published if published else project)
