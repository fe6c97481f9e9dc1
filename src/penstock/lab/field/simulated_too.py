"""``federation-simulated``: the same scenario on three real sites, and in the simulator.

Six queries average over the machines of one site, of two, or of all three. The sites' sources send
alike, and the sites can do different parts of it. What the real sites admitted a second is what the
simulated ones can do; all else, who reads what where, the intervals, the STW and the controller, is
the same. So the two differ in what the simulator leaves out: costs that have to be learnt, batches
that are late, links that take seconds, watermarks, and a capacity that varies.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.core.fairness import jain
from penstock.federation.trial_files import site_file
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import FieldOptions, say
from penstock.lab.field.two_sites import average_over, with_work
from penstock.lab.field.watched_federation import Watched
from penstock.sim.deployment import lay_out
from penstock.sim.query_graph import QueryGraph
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation

SITES = ("rome", "oslo", "kyoto")
QUERIES: Mapping[str, tuple[str, ...]] = {
    "rome-alone": ("rome",),
    "oslo-alone": ("oslo",),
    "kyoto-alone": ("kyoto",),
    "rome-oslo": ("rome", "oslo"),
    "oslo-kyoto": ("oslo", "kyoto"),
    "all-three": ("kyoto", "rome", "oslo"),
}
"""The root of each is at its first site."""
RATE_PER_SECOND = 1_500
HEADROOMS = {"rome": 0.3, "oslo": 0.4, "kyoto": 0.35}
INTERVAL, LATENCY, STW, WATERMARK = "8s", "16s", "48s", "20s"
"""Sixteen fragments of three sites share two cores, so that their batches are few and large."""
INTERVAL_SECONDS, STW_SECONDS, WINDOW_SECONDS = 8.0, 48.0, 8
SECONDS = 210.0
MEASURED_SHARE = 0.35
SHORTEST_SECONDS = 60.0
SIMULATED_STWS = 6
CLAIMS = (
    Claim("mean_sic_off", "mean SIC off from the simulated one, as a part of it", most=0.15),
    Claim("jain_off", "Jain's index off from the simulated one", most=0.05),
)


def run(options: FieldOptions) -> dict[str, Any]:
    """Runs and simulates the scenario so many times."""
    seconds = max(options.seconds or SECONDS, SHORTEST_SECONDS)
    runs = [_one(seconds) for _ in range(options.runs)]
    return {"seconds": seconds, "rate": RATE_PER_SECOND, **summed_up(runs, CLAIMS)}


def _one(seconds: float) -> dict[str, Any]:
    say(f"three sites, {len(QUERIES)} queries ({seconds:.0f} s)")
    measured = MEASURED_SHARE * seconds
    queries = [average_over(name, its, WATERMARK, WINDOW_SECONDS) for name, its in QUERIES.items()]
    real = Watched(
        SITES, queries, _make_site, INTERVAL, LATENCY, seconds - measured, measured
    ).run()
    simulated = simulate([real["throughput"][site] for site in SITES])
    return {
        "mean_sic_off": abs(real["mean_sic"] / simulated["mean_sic"] - 1.0),
        "jain_off": abs(real["jain"] - simulated["jain"]),
        "real": real,
        "simulated": simulated,
    }


def _make_site(
    name: str, names: Sequence[str], oracle: str, interval: str, latency: str
) -> dict[str, Any]:
    told = with_work(site_file(name, names, oracle, interval, latency), RATE_PER_SECOND)
    return {**told, "headroom": HEADROOMS[name], "stw": STW}


def simulate(capacities: Sequence[float]) -> dict[str, Any]:
    """Simulates the queries on sites that can do so many tuples a second.

    >>> told = simulate([2_000.0, 2_000.0, 2_000.0])
    >>> sorted(told["sic"]) == sorted(QUERIES), 0.2 < told["mean_sic"] < 0.5
    (True, True)
    """
    fragments = [(query, site) for query, sites in enumerate(QUERIES.values()) for site in sites]
    query = np.array([number for number, _ in fragments])
    first = np.flatnonzero(np.diff(query, prepend=-1))
    place = np.arange(query.size)
    ones, many = np.ones(query.size, dtype=np.int64), len(QUERIES)
    work = QueryGraph(
        ids=tuple(QUERIES),
        kinds=("avg-all",) * many,
        weight=np.ones(many),
        start=np.zeros(many),
        until=np.full(many, np.inf),
        first=first,
        query=query,
        down=np.where(place == first[query], -1, first[query]),
        sources=ones,
        emits=ones,
        path=ones,
    )
    at = np.array([SITES.index(site) for _, site in fragments])
    scenario = Scenario.model_validate(
        {
            "duration": SIMULATED_STWS * STW_SECONDS,
            "interval": INTERVAL_SECONDS,
            "stw": STW_SECONDS,
            "policy": "balance-sic-paid",
            "sites": {"count": len(SITES), "capacity": list(capacities), "latency": 0.0},
            # who reads what where is in ``work``
            "queries": [{"kind": "avg-all", "count": many, "fragments": "1-3"}],
            "sources": {"rate": RATE_PER_SECOND, "batches": RATE_PER_SECOND},
            # capacity is what was admitted, so costs and headroom are in it
            "costs": {"by_kind": False},
            "headroom": 0.99,
        }
    )
    outcome = Simulation(scenario, lay_out(work, at, np.array(capacities), scenario.costs)).run()
    sic = dict(zip(QUERIES, outcome.sic.tolist(), strict=True))
    return {
        "sic": sic,
        "jain": jain(list(sic.values())),
        "mean_sic": statistics.fmean(sic.values()),
        "capacities": list(capacities),
    }
