"""Measures a gated job under overload through Spark Connect, beside the same in a classic session.

Each runs in a process of its own, one after the other. A batch of the gated job less one of the
plain job, while nothing is shed, is what the gate costs in each.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.lab.bench import harness as h
from penstock.lab.bench.connect_job import (
    CLASSIC,
    CONNECT,
    HEAD,
    ConnectSpec,
)
from penstock.lab.field.child import dies_with_us

TURNS = (CLASSIC, CONNECT)
USUAL_SECONDS = 30.0
LATENCY_INTERVALS = 3.0
"""The latency that is asked for."""
LONGEST_SECONDS = 400.0


def run(seconds: float = USUAL_SECONDS, turns: tuple[str, ...] = TURNS) -> dict[str, Any]:
    """Compares latency, ledger and price of a batch."""
    meant = seconds >= h.MEANINGFUL_SECONDS
    interval = 1.0 if meant else 0.25
    asked = ConnectSpec(CLASSIC, 0.0, seconds / 2, seconds, LATENCY_INTERVALS * interval, interval)
    can = _child(asked)["can_process_per_second"]
    rate = h.FLOOD_FACTOR * can
    told = [_child(ConnectSpec(**{**asdict(asked), "session": s, "rate": rate})) for s in turns]
    prices = {
        session: _prices([one for one in told if one["session"] == session])
        for session in dict.fromkeys(turns)
    }
    holds = {}
    for session in prices:
        mine = [one for one in told if one["session"] == session]
        worst = max(one["p95_seconds"] for one in mine)
        holds[f"{session}: p95 within the latency asked for"] = worst <= asked.latency
        holds[f"{session}: something was shed"] = all(one["shed"] > 0 for one in mine)
        holds[f"{session}: the ledger is balanced and the source's own count"] = all(
            one["balanced"] and one["arrived"] == one["source_tuples"] for one in mine
        )
    return {
        "can_process_per_second": can,
        "rate": rate,
        "overload": h.FLOOD_FACTOR,
        "latency_asked_seconds": asked.latency,
        **prices,
        "runs": told,
        "holds": holds,
    }


def _prices(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one kind of session; of batches, the second half of each calm."""
    plain, gated = ([row for one in runs for row in _warm(one[k])] for k in ("plain", "calm"))
    price = {
        f"gate_adds_{name}": _median(gated, name) - _median(plain, name)
        for name in ("ms", "planning_ms")
    }
    return {
        "p95_seconds": [one["p95_seconds"] for one in runs],
        "admitted_share": [one["admitted"] / max(one["arrived"], 1) for one in runs],
        "plain_batch_ms": _median(plain, "ms"),
        "gated_batch_ms": _median(gated, "ms"),
        **price,
        "tuples": {
            kind: int(np.sum([one[kind] for one in runs]))
            for kind in ("source_tuples", "arrived", "admitted", "shed")
        },
    }


def _median(rows: list[dict[str, float]], name: str) -> float:
    return float(np.median([row[name] for row in rows] or [np.nan]))


def _warm(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return rows[len(rows) // 2 :]


def _child(spec: ConnectSpec) -> dict[str, Any]:
    command = [*dies_with_us(), sys.executable, "-m", "penstock.lab.bench.connect_job"]
    done = subprocess.run(
        [*command, json.dumps(asdict(spec))],
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(HEAD)]
    if done.returncode or not lines:
        raise PenstockError(f"the job in a session of its own ended with code {done.returncode}")
    told: dict[str, Any] = json.loads(lines[-1].removeprefix(HEAD))
    return told
