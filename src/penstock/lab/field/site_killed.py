"""``federation-kill``: one of three sites is killed, and started again a while later.

What is asked: the queries' SIC falls by the share of the dead site, the root's windows keep
closing, the other sites' latency stays what it was, and after the restart the SIC is back. No
window of the result is lost or comes twice.
"""

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from penstock.federation.known_sites import KnownSites
from penstock.federation.query_file import FederatedQuery
from penstock.federation.submission import submit
from penstock.federation.trial_run import Trial
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.stand import FieldOptions, say
from penstock.lab.field.two_sites import (
    INTERVAL,
    LATENCY,
    POLL_SECONDS,
    WATERMARK,
    make_light_site,
    wait_for_sites,
)

SITES = ("rome", "oslo", "kyoto")
VICTIM, ROOT_SITE = "rome", "oslo"
CALM_SECONDS, DEAD_SECONDS, BACK_SECONDS = 90.0, 60.0, 120.0
STW_SECONDS = 30.0
WINDOW_SECONDS = 3
CLAIMS = (
    Claim("calm", "SIC before", least=0.9),
    Claim("dead", "SIC while a third of it is dead, off from two thirds", most=0.05),
    Claim("back", "SIC after it is back", least=0.9),
    Claim("rows_meanwhile", "results while the site is dead", least=1),
    Claim("latency_ratio", "p95 of the others meanwhile, of their target", most=1.0),
    Claim("windows_doubled", "windows that came twice", most=0),
    Claim("windows_missing", "windows that are missing", most=0),
)


class _Look(NamedTuple):
    at: float
    sic: float
    rows: float


def run(options: FieldOptions) -> dict[str, Any]:
    """Kills a site so many times."""
    runs = [_one() for _ in range(options.runs)]
    return {"stw": STW_SECONDS, **summed_up(runs, CLAIMS)}


def _one() -> dict[str, Any]:
    say("three sites, of which one is killed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        trial = Trial(Path(folder), SITES, None, INTERVAL, LATENCY, make_site=make_light_site)
        try:
            return _killed(trial, Path(folder))
        finally:
            trial.close()


def _killed(trial: Trial, folder: Path) -> dict[str, Any]:
    trial.start_oracle(0, time.sleep)
    trial.start_sites()
    wait_for_sites(trial)
    submit(_query(), KnownSites(trial.oracle.address, token=trial.token))
    calm = _watched(trial, CALM_SECONDS)
    trial.kill_site(VICTIM)
    dead = _watched(trial, DEAD_SECONDS)
    latency = [
        site.statistics.latency_ms / site.statistics.latency_target_ms
        for site in trial.oracle.sites()
        if site.site != VICTIM and site.statistics.latency_target_ms
    ]
    trial.start_again(VICTIM)
    back = _watched(trial, BACK_SECONDS)
    windows = _windows(folder)
    return {
        "calm": _late(calm),
        "dead": abs(_late(dead) - 2 / 3),
        "dead_sic": _late(dead),
        "back": _late(back),
        "rows_meanwhile": dead[-1].rows - dead[0].rows,
        "latency_ratio": max(latency, default=None),
        "windows": len(windows),
        "windows_doubled": sum(count - 1 for count in windows.values()),
        "windows_missing": _missing(windows),
        "looks": [look._asdict() for look in (*calm, *dead, *back)],
    }


def _query() -> FederatedQuery:
    union = " UNION ALL ".join(f"{site}.machines" for site in SITES)
    return FederatedQuery.model_validate(
        {
            "query": "everywhere",
            "sql": f"SELECT window.start AS ts, avg(cpu) AS cpu, count(*) AS n FROM {union} "
            f"GROUP BY window(timestamp, '{WINDOW_SECONDS} seconds')",
            "place": {"root": ROOT_SITE},
            "watermark": WATERMARK,
            "sink": {"format": "parquet", "path": "out"},
        }
    )


def _watched(trial: Trial, seconds: float) -> list[_Look]:
    """Looks at the query once a second."""
    began, looks = time.monotonic(), list[_Look]()
    while time.monotonic() - began < seconds:
        time.sleep(POLL_SECONDS)
        known = trial.oracle.queries().queries
        looks += [_Look(time.time(), query.sic_now or 0.0, query.rows) for query in known]
    return looks


def _late(looks: Sequence[_Look]) -> float:
    """Returns the SIC of the last fifth of a stretch, when the STW has moved on."""
    return statistics.fmean(look.sic for look in looks[-max(len(looks) // 5, 1) :])


def _windows(folder: Path) -> Counter[int]:
    """Counts how often each window stands in the result."""
    out = folder / "links" / "everywhere" / "out"
    table = import_module("pyarrow.parquet").read_table(out)
    return Counter(int(moment.timestamp()) for moment in table["ts"].to_pylist())


def _missing(windows: Counter[int]) -> int:
    """Counts the windows between the first and the last that are not there."""
    wanted = range(min(windows), max(windows) + 1, WINDOW_SECONDS)
    return sum(start not in windows for start in wanted)
