"""``federation``: figure 4 of THEMIS on real Spark: two sites, three queries, one spans both.

Each query averages over the machines of its sites, and each site can do a part of what comes. As
in the paper the query that spans both sites is lifted twice where nobody tells what its result has
come to, and levels out with the others where coordinators do. The third run sheds alike at each
site, as a random shedder does. All three are real processes: an oracle and a Spark for each site.
"""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.core.fairness import jain
from penstock.errors import PenstockError
from penstock.federation.federation_report import federation_report
from penstock.federation.known_sites import KnownSites
from penstock.federation.query_file import FederatedQuery
from penstock.federation.submission import submit
from penstock.federation.trial_files import site_file
from penstock.federation.trial_run import Trial
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import FieldOptions, say

SITES = ("rome", "oslo")
SECONDS = 150.0
"""Of a run, from when all queries have been submitted."""
MEASURED_SHARE = 0.4
"""Of a run: its end, when costs are learnt and the STW has filled."""
SHORTEST_SECONDS = 40.0
"""In less, not every query has a result."""
LONGEST_START_SECONDS = 180.0
POLL_SECONDS = 1.0
RATE_PER_SECOND = 40_000
LIGHT_RATE_PER_SECOND = 500
WORK = "length(sha2(repeat(string(value), 1000), 512)) / 128"
"""Costs a tuple so much that a site cannot do what comes."""
INTERVAL, LATENCY, STW, WATERMARK = "3s", "9s", "30s", "15s"
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
)


def run(options: FieldOptions) -> dict[str, Any]:
    """Runs the three cases so many times, in turns."""
    seconds = max(options.seconds or SECONDS, SHORTEST_SECONDS)
    names = options.one_of(list(CASES))
    runs = [{name: _one(name, seconds) for name in names} for _ in range(options.runs)]
    return {
        "seconds": seconds,
        "rate": RATE_PER_SECOND,
        **summed_up([_compared(each) for each in runs], CLAIMS),
    }


def _compared(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one turn; of cases that were not asked for there are none."""
    jains = {name: case["jain"] for name, case in cases.items()}
    means = {name: case["mean_sic"] for name, case in cases.items()}

    def above(figures: Mapping[str, float], one: str, other: str) -> float | None:
        return figures[one] - figures[other] if {one, other} <= set(figures) else None

    return {
        "jain_told": jains.get("told"),
        "gained_jain": above(jains, "told", "untold"),
        "jain_above_random": above(jains, "told", "random"),
        "sic_above_random": above(means, "told", "random"),
        "cases": dict(cases),
    }


def _one(case: str, seconds: float) -> dict[str, Any]:
    """Runs one case on processes of its own."""
    say(f"two sites, three queries, {case} ({seconds:.0f} s)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        trial = Trial(Path(folder), SITES, None, INTERVAL, LATENCY, make_site=_site_of(case))
        try:
            return _watched(trial, seconds)
        finally:
            trial.close()


def _site_of(case: str) -> Any:
    def make(
        name: str, names: Sequence[str], oracle: str, interval: str, latency: str
    ) -> dict[str, Any]:
        told = site_file(name, names, oracle, interval, latency)
        machines = dict(told["sources"]["machines"], rate=RATE_PER_SECOND)
        machines["columns"] = {"cpu": f"pmod(value, 100) * {WORK}"}
        return {**told, "sources": {"machines": machines}, "queries": {}, "stw": STW, **CASES[case]}

    return make


def make_light_site(
    name: str, names: Sequence[str], oracle: str, interval: str, latency: str
) -> dict[str, Any]:
    """Makes the file of a site that can do what comes."""
    told = _site_of("told")(name, names, oracle, interval, latency)
    told["sources"]["machines"]["rate"] = LIGHT_RATE_PER_SECOND
    return dict(told)


def wait_for_sites(trial: Trial) -> None:
    """Waits until the oracle has heard of all sites."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    while len(trial.sites_up()) < len(trial.names):
        trial.check()
        if time.monotonic() > deadline:
            raise PenstockError(f"not all of {', '.join(trial.names)} are up in time")
        time.sleep(POLL_SECONDS)


def _query(name: str) -> FederatedQuery:
    union = " UNION ALL ".join(f"{site}.machines" for site in QUERIES[name])
    return FederatedQuery.model_validate(
        {
            "query": name,
            "sql": f"SELECT window.start, avg(cpu) AS cpu FROM {union} "
            "GROUP BY window(timestamp, '3 seconds')",
            "place": {"root": QUERIES[name][0]},
            "watermark": WATERMARK,
            "sink": {"format": "noop"},
        }
    )


def _watched(trial: Trial, seconds: float) -> dict[str, Any]:
    trial.start_oracle(0, time.sleep)
    trial.start_sites()
    wait_for_sites(trial)
    sites = KnownSites(trial.oracle.address, token=trial.token)
    for name in QUERIES:
        submit(_query(name), sites)
    began, samples = time.monotonic(), []
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(POLL_SECONDS)
        trial.check()
        queries = trial.oracle.queries().queries
        now = {query.query: query.sic_now for query in queries}
        if passed > (1 - MEASURED_SHARE) * seconds and set(now) == set(QUERIES):
            samples.append({name: sic or 0.0 for name, sic in now.items()})
    report = federation_report(trial.accounts(), trial.oracle.queries().queries)
    return {**_summed(samples), "report": report, "ledger_balanced": report["ledger_balanced"]}


def _summed(samples: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Returns each query's mean SIC over the measured part, and how fair that is."""
    if not samples:
        raise PenstockError("the queries had no results in the time that was given")
    means = {name: statistics.fmean(each[name] for each in samples) for name in QUERIES}
    return {
        "sic": means,
        "jain": jain(list(means.values())),
        "mean_sic": statistics.fmean(means.values()),
        "samples": len(samples),
    }
