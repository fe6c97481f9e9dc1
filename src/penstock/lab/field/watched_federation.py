"""Runs a federation of real processes for a while, and keeps what its queries stand at."""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penstock.core.fairness import jain
from penstock.errors import PenstockError
from penstock.federation.federation_report import federation_report
from penstock.federation.known_sites import KnownSites
from penstock.federation.oracle_messages import ListedQuery
from penstock.federation.query_file import FederatedQuery
from penstock.federation.submission import submit
from penstock.federation.trial_run import MakeSite, Trial

LONGEST_START_SECONDS = 180.0
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Watched:
    """Says which sites and queries are run, and for how long they are looked at."""

    sites: Sequence[str]
    queries: Sequence[FederatedQuery]
    make_site: MakeSite
    interval: str
    latency: str
    settle_seconds: float
    """From when all queries have been submitted; then costs are learnt, and the STW has filled."""
    seconds: float
    """For which they are looked at, afterwards."""

    def run(self) -> dict[str, Any]:
        """Runs it on processes of its own, in a folder that is removed afterwards."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            trial = Trial(
                Path(folder), self.sites, None, self.interval, self.latency, self.make_site
            )
            try:
                return self._watched(trial)
            finally:
                trial.close()

    def _watched(self, trial: Trial) -> dict[str, Any]:
        trial.start_oracle(0, time.sleep)
        trial.start_sites()
        wait_for_sites(trial)
        sites = KnownSites(trial.oracle.address, token=trial.token)
        for query in self.queries:
            submit(query, sites)
        settling = self._looks(trial, self.settle_seconds)
        before, began = _updates(trial), time.monotonic()
        looks = self._looks(trial, self.seconds)
        passed, after = time.monotonic() - began, _updates(trial)
        report = federation_report(trial.accounts(), trial.oracle.queries().queries)
        names = [query.query for query in self.queries]
        samples = [look.sic for look in looks if set(names) <= set(look.sic)]
        return {
            **summed(samples, names),
            "throughput": {
                site: statistics.fmean(look.throughput.get(site, 0.0) for look in looks)
                for site in self.sites
            },
            "series": [look.told() for look in (*settling, *looks)],
            "updates_a_second": (after - before) / passed,
            "update_bytes_max": report["messages"]["update_sic"]["bytes_max"],
            "ledger_balanced": report["ledger_balanced"],
            "report": report,
        }

    def _looks(self, trial: Trial, seconds: float) -> list["FederationLook"]:
        """Looks at the queries and the sites once a second."""
        looks, began = list[FederationLook](), time.monotonic()
        while time.monotonic() - began < seconds:
            pause(trial, POLL_SECONDS)
            queries, sites = trial.oracle.queries().queries, trial.oracle.sites()
            looks.append(
                FederationLook(
                    time.time(),
                    {query.query: query.sic_now or 0.0 for query in queries},
                    {site.site: site.statistics.throughput for site in sites},
                    {site.site: site.statistics.utilisation for site in sites},
                )
            )
        return looks


class FederationLook(NamedTuple):
    """Is what the oracle says at a moment."""

    at: float
    sic: Mapping[str, float]
    """Of each query's result."""
    throughput: Mapping[str, float]
    """Tuples that a site admits a second."""
    utilisation: Mapping[str, float]

    def told(self) -> dict[str, Any]:
        """Returns it with as many digits as it is worth.

        >>> FederationLook(17.25, {"a": 1 / 3}, {"rome": 1234.5678}, {"rome": 0.5}).told()["sic"]
        {'a': 0.333}
        """
        figures = {
            name: {key: round(value, 3) for key, value in getattr(self, name).items()}
            for name in ("sic", "throughput", "utilisation")
        }
        return {"at": round(self.at, 1), **figures}


def summed(samples: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, Any]:
    """Returns each query's mean SIC over the measured part, and how fair that is.

    >>> told = summed([{"a": 0.2, "b": 0.5}, {"a": 0.4, "b": 0.1}], ["a", "b"])
    >>> round(told["sic"]["b"], 3), round(told["jain"], 3), told["most"]
    (0.3, 1.0, 0.5)
    """
    if not samples:
        raise PenstockError("the queries had no results in the time that was given")
    means = {name: statistics.fmean(each[name] for each in samples) for name in names}
    return {
        "sic": means,
        "jain": jain(list(means.values())),
        "mean_sic": statistics.fmean(means.values()),
        "most": max(max(each.values()) for each in samples),
        "samples": len(samples),
    }


def wait_for_sites(trial: Trial) -> None:
    """Waits until the oracle has heard of all sites."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    while len(trial.sites_up()) < len(trial.names):
        trial.check()
        if time.monotonic() > deadline:
            raise PenstockError(f"not all of {', '.join(trial.names)} are up in time")
        time.sleep(POLL_SECONDS)


def pause(trial: Trial, seconds: float) -> None:
    """Waits, and raises if one of the processes has ended by itself meanwhile."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, POLL_SECONDS))
        trial.check()


def _updates(trial: Trial) -> float:
    queries: Sequence[ListedQuery] = trial.oracle.queries().queries
    return sum(query.updates_sent for query in queries)
