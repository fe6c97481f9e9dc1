"""Sites without Spark that speak the real messages, so that an oracle has many to hear.

What a site admits is the answer of a real policy to a demand that comes and goes; everything that
follows from it (SIC, shed, latency) is worked out from that, and is no measurement of a site.
"""

import math
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np

from penstock import policy as policies
from penstock.core.demand import Demand, Queries
from penstock.core.settings import QueryTerms
from penstock.federation.access import Access
from penstock.federation.client import CallError
from penstock.federation.ids import fragment_id
from penstock.federation.inside_messages import (
    GateInside,
    LatencyAnswer,
    LatencyChange,
    SiteInside,
    StratumInside,
    TermsAnswer,
    TermsChange,
)
from penstock.federation.messages import (
    CountedTuples,
    FragmentAnswer,
    FragmentOrder,
    FragmentStatus,
    Heartbeat,
    QueryStatus,
    SicUpdate,
    SiteStatistics,
)
from penstock.federation.oracle_client import OracleClient
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.sequences import Numbering
from penstock.federation.serving import ServedApp
from penstock.federation.site_server import site_app

TUPLES_PER_SECOND = 400.0
"""Of one query's source, on average."""
FIXED_SECONDS, ARRIVING_SHARE = 0.2, 0.05
"""What a batch is said to cost, however little is in it, and a tuple that is shed beside others."""
GROUPS = ("north", "east", "south", "west")
LATENCY_SECONDS = 15.0
TICK_SECONDS = 0.05


@dataclass(frozen=True)
class MadeUpQuery:
    """Is a query over some sites, the first of which has its root."""

    name: str
    sites: tuple[str, ...]
    rate: float


@dataclass
class MadeUpSite:
    """Is one site: what it runs, what it can do, and what it has done so far."""

    name: str
    capacity: float
    interval: float
    queries: list[MadeUpQuery] = field(default_factory=list)
    terms: dict[str, QueryTerms] = field(default_factory=dict)
    latency: float = LATENCY_SECONDS
    arrived: dict[str, float] = field(default_factory=dict)
    admitted: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    demands: dict[str, float] = field(default_factory=dict)
    plan: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, load: float, noise: random.Random) -> None:
        """Goes on by an interval in which ``load`` times the usual arrives."""
        with self.lock:
            self.plan += 1
            names = [query.name for query in self.queries]
            asked = np.array([q.rate * load * noise.uniform(0.9, 1.1) for q in self.queries])
            terms = [self.terms.get(name, QueryTerms()) for name in names]
            demand = Demand.of(
                Queries.of(
                    np.zeros(len(names)),
                    [each.weight for each in terms],
                    [each.floor for each in terms],
                    [each.ceiling for each in terms],
                ),
                query=np.arange(len(names)),
                tuples=asked,
                sic=1.0 / asked,
            )
            fits = asked.sum() <= self.capacity
            rates = np.ones(len(names)) if fits else _rates(demand, self.capacity)
            for name, tuples, rate in zip(names, asked.tolist(), rates.tolist(), strict=True):
                self.rates[name], self.demands[name] = rate, tuples
                self.arrived[name] = self.arrived.get(name, 0.0) + tuples * self.interval
                admitted = tuples * rate * self.interval
                self.admitted[name] = self.admitted.get(name, 0.0) + admitted

    # --- what its server asks: see SiteControl ------------------------------------------------

    def deploy(self, order: FragmentOrder, caller: str) -> FragmentAnswer:
        del order, caller
        raise RefusedError(Reason.NOT_POSSIBLE, "a made-up site runs what it was made with")

    def remove(self, fragment_id: str, caller: str) -> None:
        del fragment_id, caller
        raise RefusedError(Reason.NOT_POSSIBLE, "a made-up site runs what it was made with")

    def update_sic(self, update: SicUpdate, caller: str) -> None:
        del update, caller

    def report(self) -> dict[str, Any]:
        return {"site": self.name}

    def fragments(self) -> list[FragmentStatus]:
        with self.lock:
            return [part for query in self.queries for part in self._parts(query)]

    def statistics(self) -> SiteStatistics:
        with self.lock:
            asked = sum(self.demands.values())
            done = sum(self.demands[name] * self.rates[name] for name in self.demands)
            sics = [self.rates[name] for name in self.demands]
            busy = min(1.0, done / self.capacity)
            return SiteStatistics(
                throughput=done,
                dropped=max(0.0, asked - done),
                latency_ms=max(self.latency_ms(busy, query.name) for query in self.queries),
                latency_measured=True,
                latency_target_ms=1000 * self.latency,
                average_sic=sum(sics) / len(sics) if sics else None,
                fragments_running=sum(1 + (q.sites[0] == self.name) for q in self.queries),
                fragments_connected=sum(len(query.sites) - 1 for query in self.queries),
                capacity=self.capacity,
                utilisation=busy,
                backlog=0,
            )

    def latency_ms(self, busy: float, query: str) -> float:
        """Answers a latency that grows with what is to be done, a little other for each query."""
        spread = crc32(query.encode()) % 100 / 100
        return 1000 * self.latency * (0.3 + 0.45 * busy + 0.15 * spread)

    def inside(self) -> SiteInside:
        with self.lock:
            gates = [self._gate(query) for query in self.queries]
            return SiteInside(
                policy="balance-sic", plan=self.plan, latency_seconds=self.latency, gates=gates
            )

    def set_terms(self, change: TermsChange, caller: str) -> TermsAnswer:
        del caller
        with self.lock:
            if all(query.name != change.query for query in self.queries):
                raise RefusedError(Reason.UNKNOWN_QUERY, f"{change.query!r} does not run here")
            said = change.model_dump(exclude_none=True, exclude={"query"})
            self.terms[change.query] = replace(self.terms.get(change.query, QueryTerms()), **said)
            now = self.terms[change.query]
            bound = None if math.isinf(now.ceiling) else now.ceiling
            return TermsAnswer(
                query=change.query, weight=now.weight, floor=now.floor, ceiling=bound
            )

    def set_latency(self, change: LatencyChange, caller: str) -> LatencyAnswer:
        del caller
        self.latency = change.seconds
        return LatencyAnswer(seconds=change.seconds)

    # --- inside ---------------------------------------------------------------------------------

    def _parts(self, query: MadeUpQuery) -> Iterator[FragmentStatus]:
        arrived, admitted = self.arrived.get(query.name, 0.0), self.admitted.get(query.name, 0.0)
        yield FragmentStatus(
            id=fragment_id(self.name, query.name),
            query=query.name,
            fragment=self.name,
            arrived=round(arrived),
            admitted=round(admitted),
            rows=round(admitted / 50),
            sends_to=[fragment_id("root", query.name)],
        )
        if query.sites[0] == self.name:
            rows = round(admitted / 50) * len(query.sites)
            yield FragmentStatus(
                id=fragment_id("root", query.name),
                query=query.name,
                fragment="root",
                arrived=rows,
                admitted=rows,
                rows=round(rows / 10),
            )

    def _gate(self, query: MadeUpQuery) -> GateInside:
        tuples = self.demands.get(query.name, 0.0) * self.interval
        rate = self.rates.get(query.name, 1.0)
        price = 0.9 / self.capacity
        believed = FIXED_SECONDS + tuples * (ARRIVING_SHARE + rate) * price
        shares = [0.4, 0.3, 0.2, 0.1]
        return GateInside(
            stream=fragment_id(self.name, query.name),
            interval_seconds=self.interval,
            budget_seconds=self.latency / 2,
            headroom=0.9,
            fixed_seconds=FIXED_SECONDS,
            arriving_seconds=ARRIVING_SHARE * price,
            admitting_seconds=price,
            expected=tuples,
            planned=tuples * rate,
            believed_seconds=believed,
            last_seconds=believed,
            strata=[
                StratumInside(
                    query=query.name,
                    source="machines",
                    group=group,
                    arrived=10 * tuples * share,
                    admitted=10 * tuples * share * rate,
                    worth=1 / max(10 * tuples, 1.0),
                    rate=rate,
                )
                for group, share in zip(GROUPS, shares, strict=True)
            ],
            strata_in_all=len(GROUPS),
        )


class MadeUpFederation:
    """Is all sites together; each tells the oracle how it is once an interval."""

    def __init__(
        self,
        oracle: str,
        tokens: Mapping[str, str],
        sites: Sequence[MadeUpSite],
        load: float = 1.6,
        seed: int = 1,
        readers: bool = False,
    ) -> None:
        self.sites = {site.name: site for site in sites}
        self.load = load
        """How much arrives, in parts of what all sites can do."""
        self.silent: set[str] = set()
        """The sites that say nothing, as if they were killed."""
        self._clients = {name: OracleClient(oracle, tokens.get(name)) for name in self.sites}
        self._tokens, self._readers = dict(tokens), readers
        self._noise = random.Random(seed)
        self._numbers = {name: Numbering() for name in self.sites}
        self._means: dict[str, tuple[float, int]] = {}
        self._addresses: dict[str, str] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="made-up-sites", daemon=True)

    @contextmanager
    def running(self) -> Iterator["MadeUpFederation"]:
        """Serves every site, and tells the oracle of all of them, until the end of the block."""
        with ExitStack() as stack:
            for name, site in self.sites.items():
                access = Access(self._tokens, "127.0.0.1", readers=self._readers)
                served = stack.enter_context(ServedApp(site_app(site, access), access.refusals))
                self._addresses[name] = served.address
            self._thread.start()
            try:
                yield self
            finally:
                self._stopped.set()
                self._thread.join()
                for client in self._clients.values():
                    client.close()

    def _run(self) -> None:
        """Lets each site have its turn, evenly spread over its interval."""
        began = time.monotonic()
        due = {
            name: site.interval * n / len(self.sites)
            for n, (name, site) in enumerate(self.sites.items())
        }
        while not self._stopped.wait(TICK_SECONDS):
            now = time.monotonic() - began
            for name in [name for name, at in due.items() if at <= now]:
                due[name] += self.sites[name].interval
                self._turn(name, now)

    def _turn(self, name: str, now: float) -> None:
        wave = 1.0 + 0.15 * math.sin(now / 20 + len(name))
        self.sites[name].step(self.load * wave, self._noise)
        if name not in self.silent:
            with suppress(CallError):  # as a real site, it goes on without its oracle
                self._clients[name].heartbeat(self._beat(self.sites[name]))

    def _beat(self, site: MadeUpSite) -> Heartbeat:
        return Heartbeat(
            site=site.name,
            address=self._addresses[site.name],
            seq=self._numbers[site.name].next(time.time()),
            interval=site.interval,
            statistics=site.statistics(),
            fragments=site.fragments(),
            queries=[self._status(q, site) for q in site.queries if q.sites[0] == site.name],
            counted={name: _counted(site, name) for name in site.demands},
        )

    def _status(self, query: MadeUpQuery, root: MadeUpSite) -> QueryStatus:
        alive = [self.sites[name] for name in query.sites if name not in self.silent]
        sic = sum(site.rates.get(query.name, 1.0) for site in alive) / len(query.sites)
        total, times = self._means.get(query.name, (0.0, 0))
        self._means[query.name] = total + sic, times + 1
        late = root.latency_ms(root.statistics().utilisation, query.name)
        terms = root.terms.get(query.name, QueryTerms())
        return QueryStatus(
            query=query.name,
            sic=(total + sic) / (times + 1),
            sic_now=sic,
            rows=round(root.admitted.get(query.name, 0.0) / 500),
            latency_ms={"p50": 0.7 * late, "p95": late, "p99": 1.04 * late},
            latency_measured=True,
            fragments=len(query.sites) + 1,
            sites=sorted(query.sites),
            weight=terms.weight,
            floor=terms.floor,
            ceiling=None if math.isinf(terms.ceiling) else terms.ceiling,
        )


def made_up_sites(
    names: Sequence[str], queries: Mapping[str, Sequence[str]], interval: float = 2.0
) -> list[MadeUpSite]:
    """Makes sites that can do what their queries bring on average.

    ``queries`` says of each where it runs; its root is at the first of these sites.
    """
    sites = {name: MadeUpSite(name, 0.0, interval) for name in names}
    for number, (name, where) in enumerate(queries.items()):
        rate = TUPLES_PER_SECOND * (0.5 + number % 5 / 4)
        query = MadeUpQuery(name, tuple(where), rate)
        for place in where:
            sites[place].queries.append(query)
            sites[place].capacity += rate
    return list(sites.values())


def many(sites: int, queries: int) -> tuple[list[str], dict[str, list[str]]]:
    """Names so many sites, and queries of one to four sites each."""
    names = [f"site-{n + 1:02d}" for n in range(sites)]
    return names, {
        f"query-{n + 1:03d}": [names[(n + k * 7) % sites] for k in range(min(1 + n % 4, sites))]
        for n in range(queries)
    }


def _counted(site: MadeUpSite, query: str) -> CountedTuples:
    tuples = 10 * site.demands[query] * site.interval
    variance = tuples * (1 / max(site.rates[query], 1e-6) - 1)
    return CountedTuples(tuples=tuples, variance=variance)


def _rates(demand: Demand, capacity: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.clip(policies.get("balance-sic").rates(demand, capacity), 0.0, 1.0)
