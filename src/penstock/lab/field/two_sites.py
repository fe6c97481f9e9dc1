"""``federation``: figure 4 of THEMIS on real Spark: two sites, three queries, one spans both.

Each query averages over the machines of its sites, and each site can do a part of what comes: the
second one half as much of it as the first. As in the paper the query that spans both sites is
lifted twice where nobody tells what its result has come to, and levels out with the others where
coordinators do. The third case sheds alike whatever waits, source tuples and partial results, as
THEMIS' random shedder does. All three are real processes: an oracle and a Spark for each site.

A site plans a half of its core only (``headroom``), so that two sites, their drivers and the oracle
fit on two cores: overload is then a matter of what the sites lend, and not of who else runs here. A
tuple costs a tenth of a millisecond and more, so that a site sheds two to five times what it does
at some thousand tuples a second, and what a batch costs by itself is the smaller part.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.federation.query_file import FederatedQuery
from penstock.federation.trial_files import site_file
from penstock.federation.trial_run import MakeSite
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import FieldOptions, say
from penstock.lab.field.watched_federation import POLL_SECONDS as POLL_SECONDS
from penstock.lab.field.watched_federation import Watched
from penstock.lab.field.watched_federation import wait_for_sites as wait_for_sites

SITES = ("rome", "oslo")
SECONDS = 165.0
"""Of a run, from when all queries have been submitted."""
MEASURED_SHARE = 0.3
"""Of a run: its end. It takes two STWs and the age of results, some 90 s, until what coordinators
tell has nothing of the cold start in it."""
SHORTEST_SECONDS = 40.0
"""In less, not every query has a result."""
RATES_PER_SECOND = {"rome": 3_000, "oslo": 6_000}
"""Of a site's machines; each query reads them all."""
LIGHT_RATE_PER_SECOND = 500
HEADROOM = 0.5
WORK = "length(sha2(repeat(string(value), 2500), 512)) / 128"
"""Costs a tuple so much that a site cannot do what comes."""
INTERVAL, LATENCY, STW, WATERMARK = "3s", "9s", "30s", "15s"
"""Of sites that can do what comes."""
BUSY_INTERVAL, BUSY_LATENCY, BUSY_STW = "5s", "10s", "30s"
"""Of those that cannot: four streams a site take a second of a core before their first tuple.
Results are some 25 s old, and an STW is longer than that."""
BUSY_INTERVAL_SECONDS, WINDOW_SECONDS = 5.0, 5
CASES: Mapping[str, Mapping[str, Any]] = {
    "told": {},
    "untold": {"tells": False},
    "random": {"policy": "uniform"},
}
QUERIES = {"left": ("rome",), "both": ("rome", "oslo"), "right": ("oslo",)}
CLAIMS = (
    Claim("jain_told", "Jain's index where coordinators tell", least=0.98),
    Claim("gained_jain", "Jain's index above that where nobody tells", least=0.0),
    Claim("jain_above_random", "Jain's index above that of random shedding", least=0.0),
    Claim("sic_above_random", "mean SIC above that of random shedding", least=0.0),
    Claim("update_bytes", "bytes of an update", most=300),
)


def run(options: FieldOptions) -> dict[str, Any]:
    """Runs the three cases so many times, in turns."""
    seconds = max(options.seconds or SECONDS, SHORTEST_SECONDS)
    names = options.one_of(list(CASES))
    runs = [{name: _one(name, seconds) for name in names} for _ in range(options.runs)]
    return {
        "seconds": seconds,
        "rates": RATES_PER_SECOND,
        **summed_up([_compared(each) for each in runs], CLAIMS),
    }


def _compared(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one turn; of cases that were not asked for there are none."""
    jains = {name: case["jain"] for name, case in cases.items()}
    means = {name: case["mean_sic"] for name, case in cases.items()}
    told = cases.get("told")

    def above(figures: Mapping[str, float], one: str, other: str) -> float | None:
        return figures[one] - figures[other] if {one, other} <= set(figures) else None

    return {
        "jain_told": jains.get("told"),
        "gained_jain": above(jains, "told", "untold"),
        "jain_above_random": above(jains, "told", "random"),
        "sic_above_random": above(means, "told", "random"),
        "update_bytes": None if told is None else told["update_bytes_max"],
        # of the three queries one is told of to another site: THEMIS has 4 updates a second
        "updates_an_interval": None
        if told is None
        else told["updates_a_second"] * BUSY_INTERVAL_SECONDS,
        "cases": dict(cases),
    }


def _one(case: str, seconds: float) -> dict[str, Any]:
    """Runs one case on processes of its own."""
    say(f"two sites, three queries, {case} ({seconds:.0f} s)")
    measured = MEASURED_SHARE * seconds
    queries = [_query(name) for name in QUERIES]
    watched = Watched(
        SITES, queries, _site_of(case), BUSY_INTERVAL, BUSY_LATENCY, seconds - measured, measured
    )
    return watched.run()


def _site_of(case: str) -> MakeSite:
    def make(
        name: str, names: Sequence[str], oracle: str, interval: str, latency: str
    ) -> dict[str, Any]:
        rate = RATES_PER_SECOND.get(name, LIGHT_RATE_PER_SECOND)
        told = with_work(site_file(name, names, oracle, interval, latency), rate)
        return {**told, "headroom": HEADROOM, "stw": BUSY_STW, **CASES[case]}

    return make


def with_work(site: Mapping[str, Any], rate: int) -> dict[str, Any]:
    """Returns the file of a site whose machines report so often, and cost it much; no own query."""
    machines = dict(site["sources"]["machines"], rate=rate)
    machines["columns"] = {"cpu": f"pmod(value, 100) * {WORK}"}
    return {**site, "sources": {"machines": machines}, "queries": {}}


def make_light_site(
    name: str, names: Sequence[str], oracle: str, interval: str, latency: str
) -> dict[str, Any]:
    """Makes the file of a site that can do what comes."""
    site = site_file(name, names, oracle, interval, latency)
    return {**with_work(site, LIGHT_RATE_PER_SECOND), "stw": STW}


def _query(name: str) -> FederatedQuery:
    return average_over(name, QUERIES[name], WATERMARK, WINDOW_SECONDS)


def average_over(
    name: str, sites: Sequence[str], watermark: str, window_seconds: int
) -> FederatedQuery:
    """Returns a query for the average over the machines of some sites; its root is at the first."""
    union = " UNION ALL ".join(f"{site}.machines" for site in sites)
    return FederatedQuery.model_validate(
        {
            "query": name,
            "sql": f"SELECT window.start, avg(cpu) AS cpu FROM {union} "
            f"GROUP BY window(timestamp, '{window_seconds} seconds')",
            "place": {"root": sites[0]},
            "watermark": watermark,
            "sink": {"format": "noop"},
        }
    )
