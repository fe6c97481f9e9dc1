"""``federation-latency``: how old a federated result is, over one hop and over two, and why.

Three sites that can do what comes. A tree has leaves at two sites and its root at the third: one
hop. A chain goes from the first site over the second to a root at the third: two. What the sites
write is watched from outside: the files of a link, with the newest event time in them, and the
files of the result. So the time from a window's end to its result falls into parts that add up:

- for each hop: until the next file with all of the window lies in the link: up to an interval
  until the tuples are read, Spark's listing of a link, and the batch;
- the watermark: until a file lies there with a tuple so much younger;
- the root: until it has listed and read that file, and the batch after it, to which the watermark
  applies, has written the result.
"""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from penstock.federation.known_sites import KnownSites
from penstock.federation.query_file import FederatedQuery
from penstock.federation.submission import submit
from penstock.federation.trial_run import Trial
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import FieldOptions, say
from penstock.lab.field.two_sites import make_light_site
from penstock.lab.field.watched_federation import wait_for_sites

SITES = ("rome", "oslo", "kyoto")
ROOT_SITE = "kyoto"
INTERVAL, LATENCY = "3s", "9s"
INTERVAL_SECONDS, WATERMARK_SECONDS, WINDOW_SECONDS = 3.0, 10.0, 3.0
SECONDS, SHORTEST_SECONDS = 120.0, 60.0
FEWEST_WINDOWS = 5
LOOK_SECONDS = 0.05
OUT = "out"
HOPS = {"tree": 1, "chain": 2}
CLAIMS = (
    Claim("tree_seconds", "median seconds from a window's end to its result, one hop"),
    Claim("chain_seconds", "the same over two hops"),
    Claim("windows", "windows that were followed, of the query with fewer", least=FEWEST_WINDOWS),
)


class LinkFile(NamedTuple):
    """Is a file that a sender has put into a link."""

    at: float
    """When it was there."""
    newest: float
    """The latest event time in it."""


@dataclass
class Followed:
    """Collects what a query's links and results were given, and when."""

    home: Path
    links: dict[str, dict[str, list[LinkFile]]] = field(default_factory=dict)
    """By link, and in it by sender."""
    results: dict[float, float] = field(default_factory=dict)
    """By the end of a window, when its result was there."""
    seen: set[Path] = field(default_factory=set)

    def look(self) -> None:
        """Takes in the files that are new."""
        for file in [*self.home.glob("*.0/*/*.parquet"), *self.home.glob(f"{OUT}/*.parquet")]:
            if file in self.seen:
                continue
            try:
                self._take(file)
            except FileNotFoundError:  # its reader was quicker
                continue
            except ValueError:  # as pyarrow says of a file that is still being written
                continue
            self.seen.add(file)

    def _take(self, file: Path) -> None:
        at = file.stat().st_mtime
        if file.parent.name == OUT:
            for end in _moments(file, "end"):
                self.results.setdefault(end, at)
            return
        link, sender = file.parent.parent.name, file.name.partition("+")[0]
        found = LinkFile(at, max(_moments(file, "_time")))
        self.links.setdefault(link, {}).setdefault(sender, []).append(found)


def parts_of(followed: Followed, links: Sequence[str], end: float) -> list[float] | None:
    """Returns the parts of the time from a window's end to its result; None if one is not known.

    ``links`` are those on the way, the root's last. Of several senders the last one counts, but for
    the watermark, which any of them moves.
    """
    result, moments = followed.results.get(end), [end]
    if result is None:
        return None
    for link in links:
        there = [_first(files, end, moments[-1]) for files in followed.links.get(link, {}).values()]
        if not there or None in there:
            return None
        moments.append(max(moment for moment in there if moment is not None))
    moving = [
        _first(files, end + WATERMARK_SECONDS, 0.0)
        for files in followed.links.get(links[-1], {}).values()
    ]
    known = [moment for moment in moving if moment is not None]
    if not known:
        return None
    moments += [max(min(known), moments[-1]), result]
    return [after - before for before, after in pairwise(moments)]


def _moments(file: Path, column: str) -> list[float]:
    """Returns a column of timestamps in seconds since the epoch; Spark writes them in UTC."""
    values = import_module("pyarrow.parquet").read_table(file, columns=[column])[column].to_pylist()
    return [value.replace(tzinfo=value.tzinfo or UTC).timestamp() for value in values]


def _first(files: Sequence[LinkFile], newest: float, after: float) -> float | None:
    """Returns when the first file was there with a tuple so new, and not before a moment."""
    return next((file.at for file in files if file.newest >= newest and file.at >= after), None)


def run(options: FieldOptions) -> dict[str, Any]:
    """Follows windows so many times."""
    seconds = max(options.seconds or SECONDS, SHORTEST_SECONDS)
    runs = [_one(seconds) for _ in range(options.runs)]
    return {
        "interval": INTERVAL_SECONDS,
        "watermark": WATERMARK_SECONDS,
        "window": WINDOW_SECONDS,
        **summed_up(runs, CLAIMS),
    }


def _one(seconds: float) -> dict[str, Any]:
    say(f"windows over one hop and over two ({seconds:.0f} s)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        trial = Trial(Path(folder), SITES, None, INTERVAL, LATENCY, make_light_site)
        try:
            trial.start_oracle(0, time.sleep)
            trial.start_sites()
            wait_for_sites(trial)
            sites = KnownSites(trial.oracle.address, token=trial.token)
            for shape in HOPS:
                submit(_query(shape), sites)
            followed = {name: Followed(Path(folder) / "links" / name) for name in HOPS}
            _follow(trial, followed, seconds)
        finally:
            trial.close()
    return _summed(followed)


def _query(shape: str) -> FederatedQuery:
    return FederatedQuery.model_validate(
        {
            "query": shape,
            "sql": "SELECT window.end, avg(cpu) AS cpu FROM rome.machines UNION ALL oslo.machines "
            f"GROUP BY window(timestamp, '{WINDOW_SECONDS:.0f} seconds')",
            "shape": shape,
            "place": {"root": ROOT_SITE},
            "watermark": WATERMARK_SECONDS,
            "sink": {"format": "parquet", "path": OUT},
        }
    )


def _follow(trial: Trial, followed: Mapping[str, Followed], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        trial.check()
        for each in followed.values():
            each.look()
        time.sleep(LOOK_SECONDS)


def _summed(followed: Mapping[str, Followed]) -> dict[str, Any]:
    """Returns the median of each part; the first half of a run is a cold JVM's."""
    told: dict[str, Any] = {}
    for name, each in followed.items():
        links = sorted(each.links, key=lambda link: link.startswith("root"))
        ends = sorted(each.results)
        found = [parts_of(each, links, end) for end in ends[len(ends) // 2 :]]
        parts = [part for part in found if part is not None]
        names = [*(f"hop {n + 1}" for n in range(len(links))), "watermark", "root"]
        told[name] = {
            "windows": len(parts),
            "seconds": statistics.median(map(sum, parts)) if parts else None,
            "longest": max(map(sum, parts), default=None),
            "parts": {
                part: statistics.median(values)
                for part, values in zip(names, zip(*parts, strict=True), strict=False)
            },
        }
    return {
        "tree_seconds": told["tree"]["seconds"],
        "chain_seconds": told["chain"]["seconds"],
        "windows": min(each["windows"] for each in told.values()),
        **told,
    }
