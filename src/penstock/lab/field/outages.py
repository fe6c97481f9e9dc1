"""``federation-outages``: what fails while queries over three sites run, one thing after the other.

Real processes that can do what comes, and two queries that count all tuples of each window. The
link of the one cannot be written for a while; then its root is moved to another site; then that
site, which has its coordinator too, is killed and started again later. The other query has its root
twice, and one of the two dies with that site. No window may be lost or come twice, nor may a tuple
of the first query be lost: nothing is away for longer than its watermark.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.federation.known_sites import KnownSites
from penstock.federation.link import UNFINISHED
from penstock.federation.messages import RUNNING
from penstock.federation.moving import move
from penstock.federation.query_file import ROOT, FederatedQuery
from penstock.federation.submission import submit
from penstock.federation.trial_files import site_file
from penstock.federation.trial_run import Trial
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.result_windows import WINDOW_SECONDS, Windows, lost_of, windows_of
from penstock.lab.field.stand import FieldOptions, say
from penstock.lab.field.watched_federation import POLL_SECONDS, wait_for_sites

SITES = ("rome", "oslo", "kyoto")
FIRST_ROOT, VICTIM = "oslo", "kyoto"
COUNTED, TWICE = "counted", "twice"
INTERVAL, LATENCY, INTERVAL_SECONDS = "5s", "15s", 5.0
WATERMARKS = {COUNTED: 90.0, TWICE: 20.0}
RATE_PER_SECOND = 500
TUPLES = len(SITES) * RATE_PER_SECOND * WINDOW_SECONDS
"""Of a window."""
CALM_SECONDS, AWAY_SECONDS, SETTLE_SECONDS, DEAD_SECONDS = 40.0, 20.0, 20.0, 25.0
LONGEST_SECONDS = 240.0
"""That anything may take, on a machine that does much else."""
CLAIMS = (
    Claim("link_told_intervals", "intervals until a link away is named", most=3.0),
    Claim("lost", "tuples lost by the query whose link, root and site went", most=0),
    Claim("missing", "its windows that are missing", most=0),
    Claim("doubled", "its windows that came twice", most=0),
    Claim("replica_missing", "windows missing of the query with a replica", most=0),
    Claim("replica_doubled", "its windows that came twice", most=0),
    Claim("replica_pause_ratio", "its longest pause, of the replicas' patience and two intervals"),
)


def run(options: FieldOptions) -> dict[str, Any]:
    """Lets it all fail so many times."""
    return summed_up([_one() for _ in range(options.runs)], CLAIMS)


def _one() -> dict[str, Any]:
    say("three sites: a link away, a root moved, a site killed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        trial = Trial(Path(folder), SITES, None, INTERVAL, LATENCY, make_site)
        try:
            trial.start_oracle(0, time.sleep)
            trial.start_sites()
            wait_for_sites(trial)
            return Outages(trial, Path(folder) / "links").all()
        finally:
            trial.close()


def make_site(
    name: str, names: Sequence[str], oracle: str, interval: str, latency: str
) -> dict[str, Any]:
    """Makes the file of a site of which a tuple costs next to nothing; it has no own query."""
    site = site_file(name, names, oracle, interval, latency)
    machines = {**site["sources"]["machines"], "rate": RATE_PER_SECOND}
    machines["columns"] = {"cpu": "pmod(value, 100)"}
    return {**site, "sources": {"machines": machines}, "queries": {}}


@dataclass
class Outages:
    """Makes things fail, one after the other, and watches."""

    trial: Trial
    links: Path
    delivered: list[tuple[float, int]] = field(default_factory=list)
    """When how many windows of the query with a replica were there."""

    def all(self) -> dict[str, Any]:
        """Returns the figures of a run."""
        sites = KnownSites(self.trial.oracle.address, token=self.trial.token)
        queries = {name: _query(name) for name in WATERMARKS}
        for query in queries.values():
            submit(query, sites)
        self._wait(lambda: self._windows(TWICE), "first results")
        self._pause(CALM_SECONDS)
        told, back = self._link_away()
        began = time.monotonic()
        move(queries[COUNTED], ROOT, VICTIM, sites)
        say(f"the root has moved ({time.monotonic() - began:.1f} s)")
        moved = time.monotonic() - began
        self._pause(SETTLE_SECONDS)
        died = self._site_dead()
        until = time.time() + SETTLE_SECONDS
        self._wait(lambda: max(self._windows(COUNTED), default=0.0) >= until, "the last windows")
        return {
            "link_told_intervals": told / INTERVAL_SECONDS,
            "link_back_seconds": back,
            "move_seconds": moved,
            **lost_of(self._windows(COUNTED), TUPLES),
            **{f"replica_{key}": value for key, value in lost_of(self._windows(TWICE)).items()},
            **self._pauses(died),
        }

    def _link_away(self) -> tuple[float, float]:
        """Takes a link away; answers when that was said, and when all fragments ran again."""
        place = self.links / COUNTED / f"{ROOT}.0" / "links" / UNFINISHED
        began = time.monotonic()
        _spoil(place)
        self._wait(lambda: self._failed("cannot be written"), "the link to be named")
        told = time.monotonic() - began
        say(f"the link is named after {told:.1f} s")
        self._pause(max(AWAY_SECONDS - told, 0.0))
        place.unlink()
        began = time.monotonic()
        self._wait(lambda: not self._failed(""), "all fragments to run again")
        say(f"all fragments run after {time.monotonic() - began:.1f} s")
        back = time.monotonic() - began
        self._pause(SETTLE_SECONDS)
        return told, back

    def _site_dead(self) -> float:
        """Kills the coordinator's site, starts it again a while later, and answers when it died."""
        self.trial.kill_site(VICTIM)
        died = time.time()
        say(f"{VICTIM} is dead")
        self._pause(DEAD_SECONDS)
        self.trial.start_again(VICTIM)
        self._wait(lambda: not self._silent() and not self._failed(""), "the site to be back")
        say(f"{VICTIM} is back after {time.time() - died - DEAD_SECONDS:.1f} s")
        return died

    def _pauses(self, died: float) -> dict[str, float | None]:
        """Answers the longest pauses between results of the query with a replica."""
        grown = [
            at for (_, n), (at, m) in pairwise(self.delivered) if m > n
        ]  # a batch delivers several windows
        before = [b - a for a, b in pairwise(grown) if b < died]
        after = [b - a for a, b in pairwise(grown) if b >= died]
        usual = (3 + 2) * INTERVAL_SECONDS
        return {
            "replica_pause_before": max(before, default=None),
            "replica_pause_after": max(after, default=None),
            "replica_pause_ratio": max(after) / usual if after else None,
        }

    def _failed(self, why: str) -> bool:
        return any(
            fragment.state != RUNNING and why in fragment.trouble
            for site in self.trial.oracle.sites()
            for fragment in site.fragments
        )

    def _silent(self) -> bool:
        return any(site.silent or site.age > INTERVAL_SECONDS for site in self.trial.oracle.sites())

    def _windows(self, query: str) -> Windows:
        return windows_of(self.links / query / "out")

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._look()

    def _wait(self, condition: Callable[[], Any], what: str) -> None:
        until = time.monotonic() + LONGEST_SECONDS
        while not condition():
            self._look()
            if time.monotonic() > until:
                raise PenstockError(f"{what}: in vain for {LONGEST_SECONDS:.0f} s")

    def _look(self) -> None:
        time.sleep(POLL_SECONDS)
        there = list((self.links / TWICE / "out").glob("*.parquet"))
        self.delivered.append((time.time(), len(there)))


def _spoil(place: Path) -> None:
    """Puts a file where a directory was: into that not even root can write."""
    while not place.is_file():  # whoever writes into it just then may make it anew
        shutil.rmtree(place, ignore_errors=True)
        place.touch()


def _query(name: str) -> FederatedQuery:
    union = " UNION ALL ".join(f"{site}.machines" for site in SITES)
    root = FIRST_ROOT if name == COUNTED else VICTIM
    return FederatedQuery.model_validate(
        {
            "query": name,
            "sql": f"SELECT window.start AS ts, count(*) AS n FROM {union} "
            f"GROUP BY window(timestamp, '{WINDOW_SECONDS} seconds')",
            "place": {"root": root},
            "replicas": {} if name == COUNTED else {"root": 2},
            "watermark": WATERMARKS[name],
            "sink": {"format": "parquet", "path": "out"},
        }
    )
