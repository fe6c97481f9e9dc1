"""``penstock bench dashboard``: what it costs to look at a large federation.

The oracle is a process of its own and the browser is a real one; the sites are made up, and speak
the real messages once an interval each.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.federation.children import ChildProcess, end_all
from penstock.lab.page_load.made_up_federation import MadeUpFederation, made_up_sites, many
from penstock.lab.page_load.page_browser import LookedAt, MainThread, looking_at

SITES, QUERIES = 20, 200
INTERVAL_SECONDS = 2.0
"""Of the sites, as a site's file has it unless told."""
USUAL_SECONDS = 600.0
SETTLING_SECONDS = 15.0
SAMPLES = 20
FEWEST_SECONDS_A_SAMPLE = 5.0
"""Garbage is collected for each, which takes the page's main thread, too."""
MOST_MAIN_THREAD_MS = 100.0
MOST_ORACLE_SHARE = 0.05
MOST_GROWTH_MB_PER_10_MINUTES = 8.0
"""What counts as flat: what a straight line through the late samples says of either process."""
LONGEST_START_SECONDS = 60.0
LISTENS = re.compile(r"listens on (https?://\S+);")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1024


def run(seconds: float = USUAL_SECONDS) -> dict[str, Any]:
    """Looks for so long, and answers what that has cost browser and oracle."""
    with _an_oracle() as (address, pid), _sites(address), looking_at(address) as looked_at:
        last_row = looked_at.page.locator("#query-list tbody tr").nth(QUERIES - 1)
        last_row.wait_for(timeout=1000 * LONGEST_START_SECONDS)
        time.sleep(min(SETTLING_SECONDS, seconds))
        looked_at.collect_garbage()
        rows = list(_samples(looked_at, pid, seconds))
    return figures(rows)


def figures(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Sums samples up, each of the time ``at`` which it was taken and what was used until then."""
    first, last = rows[0], rows[-1]
    passed = last["at"] - first["at"]
    used = {
        name: (last[name] - first[name]) / passed for name in ("tasks", "scripts", "layout", "cpu")
    }
    growth = {name: 600 * _slope(rows, name) for name in ("heap_mb", "oracle_mb")}
    return {
        "sites": SITES,
        "queries": QUERIES,
        "interval_seconds": INTERVAL_SECONDS,
        "watched_seconds": passed,
        "main_thread_ms_per_second": 1000 * used["tasks"],
        "of_it_scripts_ms": 1000 * used["scripts"],
        "of_it_layout_ms": 1000 * used["layout"],
        "oracle_share_of_a_core": used["cpu"],
        "heap_growth_mb_per_10_minutes": growth["heap_mb"],
        "oracle_growth_mb_per_10_minutes": growth["oracle_mb"],
        "samples": rows,
        "holds": {
            "main thread": 1000 * used["tasks"] <= MOST_MAIN_THREAD_MS,
            "oracle": used["cpu"] <= MOST_ORACLE_SHARE,
            "memory": max(growth.values()) <= MOST_GROWTH_MB_PER_10_MINUTES,
        },
    }


def _samples(looked_at: LookedAt, pid: int, seconds: float) -> Iterator[dict[str, float]]:
    began = time.monotonic()
    samples = min(SAMPLES, int(seconds / FEWEST_SECONDS_A_SAMPLE))
    for number in range(samples + 1):
        looked_at.page.wait_for_timeout(
            max(0.0, began + seconds * number / samples - time.monotonic()) * 1000
        )
        looked_at.collect_garbage()
        thread: MainThread = looked_at.main_thread()
        yield {"at": time.monotonic() - began, **asdict(thread), **_process(pid)}


def _process(pid: int) -> dict[str, float]:
    """Answers the processor seconds that a process has used, and the memory that it has."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return {"cpu": ticks / TICKS_PER_SECOND, "oracle_mb": int(fields[21]) * PAGE_KB / 1024}


def _slope(rows: list[dict[str, float]], name: str) -> float:
    """Answers by how much a figure grows in a second, over the second half of the samples."""
    late = rows[len(rows) // 2 :]
    at, values = ([row[key] for row in late] for key in ("at", name))
    return float(np.polyfit(at, values, 1)[0])


@contextmanager
def _an_oracle() -> Iterator[tuple[str, int]]:
    """Runs an oracle on this machine, and answers its address and its process."""
    with tempfile.TemporaryDirectory() as folder:
        child = ChildProcess("oracle", ["oracle", "--port", "0"], Path(folder), {})
        try:
            deadline = time.monotonic() + LONGEST_START_SECONDS
            while (found := LISTENS.search(child.said())) is None:
                if not child.runs or time.monotonic() > deadline:
                    raise PenstockError(f"the oracle does not start: {child.last_words()}")
                time.sleep(0.1)
            yield found[1], child.pid
        finally:
            end_all([child], LONGEST_START_SECONDS)


@contextmanager
def _sites(oracle: str) -> Iterator[None]:
    names, queries = many(SITES, QUERIES)
    sites = made_up_sites(names, queries, INTERVAL_SECONDS)
    with MadeUpFederation(oracle, {}, sites).running():
        yield
