"""A federation driven without Spark: real controllers, news and results; modelled batches.

Figure 4 of THEMIS. Every fragment has a batch an interval, at a moment of its own. A leaf's batch
becomes one row of a link, which the root sees some seconds later, and the result after a watermark
more; costs are noisy. So news is as old as on Spark, and batches start from cold.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock import policy
from penstock.core.controller import Controller
from penstock.core.settings import QueryTerms, Settings
from penstock.core.state import State
from penstock.core.types import Batch, Count, Plan, Report, Stratum, Upcoming
from penstock.federation.lending import Lending
from penstock.federation.result_sic import sic_of_results
from penstock.spark.elsewhere import CLASSES_PER_OCTAVE, Elsewhere, rate_of_new_class
from penstock.spark.query import ResultBatch

INTERVAL, STW, LINK_SECONDS, WATERMARK = 3.0, 30.0, 5.0, 10.0
QUERIES = {"left": ("rome",), "both": ("rome", "oslo"), "right": ("oslo",)}
RATES = {"rome": 10_000, "oslo": 20_000}
SECONDS_PER_TUPLE, NOISE, HEADROOM = 40e-6, 0.15, 0.3
OVERHEAD_SECONDS, READING_SECONDS = 0.3, 1e-6


@dataclass(frozen=True)
class Row:
    """A row of a link: when its reader sees it, and what it carries."""

    at: float
    came: float
    meant: float


@dataclass
class DrivenSite:
    """A site of which only the batches are made up."""

    policy_name: str
    state: State = field(default_factory=State)
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    finished: list[Batch] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    links: dict[str, list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = Settings(
            policy=Lending(policy.get(self.policy_name), 1.0),
            interval=INTERVAL,
            latency=3 * INTERVAL,
            stw=STW,
            headroom=HEADROOM,
            terms={query: QueryTerms(guest=True) for query in QUERIES},
        )
        self.controller = Controller(settings)

    def plan(self, stream: str, now: float) -> Plan:
        """Steps as a site does when one of its Spark queries plans a batch."""
        news = self.elsewhere.news(self.state.account)
        report = Report(now, tuple(self.finished), Upcoming(stream, INTERVAL), *news)
        self.state, plan = self.controller.step(self.state, report)
        self.finished = []
        return plan

    def finish(self, stream: str, now: float, counts: Mapping[Stratum, Count], work: float) -> None:
        number = self.numbers[stream] = self.numbers.get(stream, -1) + 1
        seconds = work + OVERHEAD_SECONDS
        self.finished.append(
            Batch(
                stream,
                number,
                now,
                seconds,
                counts,
                work=work,
                overhead=OVERHEAD_SECONDS,
                span=work,
            )
        )


class DrivenFederation:
    """Two sites and three queries."""

    def __init__(
        self,
        policy_name: str = "balance-sic-paid",
        *,
        tells: bool,
        seed: int,
        watermark: float = WATERMARK,
        as_of_now: bool = False,
        fixed_work: float = 0.0,
    ) -> None:
        self._tells, self._rng = tells, np.random.default_rng(seed)
        self._watermark, self._fixed_work = watermark, fixed_work
        age = LINK_SECONDS + INTERVAL / 2 + watermark
        self._told_age = 0.0 if as_of_now else min(age, STW)
        self.sites = {name: DrivenSite(policy_name) for name in RATES}
        self.results: dict[str, list[ResultBatch]] = {query: [] for query in QUERIES}
        self.now = 1000.0
        for query, places in QUERIES.items():
            for site in places:
                self.sites[site].elsewhere.has_sources(query, "machines", len(places))
            self.sites[places[0]].elsewhere.has_link(query)
            self.sites[places[0]].links[query] = []

    def run(self, seconds: float, measured: float) -> dict[str, float]:
        """Answers the mean SIC of each query's result over the end of the time."""
        looks: list[dict[str, float]] = []
        for _ in range(round(seconds / INTERVAL)):
            self._interval()
            looks.append({query: self._sic(query) or 0.0 for query in QUERIES})
        late = looks[-round(measured / INTERVAL) :]
        return {query: statistics.fmean(look[query] for look in late) for query in QUERIES}

    def _interval(self) -> None:
        fragments = [(q, s) for q, places in QUERIES.items() for s in (*places, "root")]
        for number, (query, site) in enumerate(fragments):
            now = self.now + INTERVAL * number / len(fragments)
            if site == "root":
                self._root(query, now)
            else:
                self._leaf(query, site, now)
        self.now += INTERVAL
        for query, places in QUERIES.items() if self._tells else ():
            if (sic := self._sic(query)) is None:
                continue
            for site in places:
                self.sites[site].elsewhere.tell(query, sic, self.now - self._told_age)

    def _sic(self, query: str) -> float | None:
        known = [result for result in self.results[query] if result.committed <= self.now]
        return sic_of_results(known, self.now, STW)

    def _leaf(self, query: str, name: str, now: float) -> None:
        site, stratum = self.sites[name], Stratum(query, "machines")
        plan = site.plan(f"leaf@{query}", now)
        place = plan.strata.place(stratum)
        rate = plan.default_rate if place < 0 else float(plan.rates[place])
        worth = plan.default_sic if place < 0 else float(plan.sic[place])
        arrived = round(RATES[name] * INTERVAL)
        admitted = int(self._rng.binomial(arrived, rate))
        noise = 1 + NOISE * self._rng.standard_normal()
        work = admitted * SECONDS_PER_TUPLE * noise + arrived * READING_SECONDS + self._fixed_work
        site.finish(f"leaf@{query}", now, {stratum: Count(arrived, admitted)}, work)
        if admitted:
            row = Row(now + LINK_SECONDS, worth * admitted, worth * admitted / rate)
            self.sites[QUERIES[query][0]].links[query].append(row)

    def _root(self, query: str, now: float) -> None:
        site = self.sites[QUERIES[query][0]]
        plan = site.plan(f"root@{query}", now)
        rows = [row for row in site.links[query] if row.at <= now]
        site.links[query] = [row for row in site.links[query] if row.at > now]
        counts: dict[Stratum, Count] = {}
        came = meant = 0.0
        for row in rows:
            number = int(np.floor(-CLASSES_PER_OCTAVE * np.log2(row.came)))
            stratum = Stratum(query, f"links~{number}")
            known = plan.strata.place(stratum) >= 0
            rate = plan.rate(stratum) if known else rate_of_new_class(plan, query)
            admitted = self._rng.random() < rate
            before = counts.get(stratum, Count(0, 0))
            counts[stratum] = Count(before.arrived + 1, before.admitted + admitted)
            if admitted:
                came, meant = came + row.came, meant + row.meant / rate
        site.finish(f"root@{query}", now, counts, READING_SECONDS * len(rows) + self._fixed_work)
        if rows:
            self.results[query].append(ResultBatch(now + self._watermark, came, meant, 1))
