"""What ``penstock bench connect`` makes of what its processes told."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.lab.bench import connect_price
from penstock.lab.bench.connect_job import CLASSIC, CONNECT, ConnectSpec


def told(spec: ConnectSpec, *, lost: int = 0) -> dict[str, Any]:
    """What a process could tell: batches of 200 ms, and 10 or 25 more behind a gate."""
    if not spec.rate:
        return {"can_process_per_second": 1000.0}
    adds = 10.0 if spec.session == CLASSIC else 25.0
    cold = [{"batch": 0, "ms": 5000.0, "planning_ms": 900.0}]
    plain = [{"batch": n, "ms": 200.0, "planning_ms": 5.0} for n in (1, 2)]
    gated = [{"batch": n, "ms": 200.0 + adds, "planning_ms": 5.0 + adds} for n in (1, 2)]
    return {
        "session": spec.session,
        "plain": cold + plain,
        "calm": cold + gated,
        "p95_seconds": 0.9 * spec.latency,
        "source_tuples": 100,
        "arrived": 100 - lost,
        "admitted": 30,
        "shed": 70 - lost,
        "balanced": True,
    }


def test_the_price_is_that_of_warm_batches_over_those_of_the_plain_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect_price, "_child", told)
    found = connect_price.run(30.0)
    assert found["rate"] == 10_000
    assert found[CLASSIC]["gate_adds_ms"] == 10.0
    assert found[CONNECT]["gate_adds_planning_ms"] == 25.0
    assert found[CONNECT]["tuples"]["arrived"] == 100
    assert all(found["holds"].values())


def test_a_tuple_that_is_in_no_ledger_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_price, "_child", lambda spec: told(spec, lost=1))
    broken = [name for name, good in connect_price.run(30.0)["holds"].items() if not good]
    assert broken == [
        f"{session}: the ledger is balanced and the source's own count"
        for session in (CLASSIC, CONNECT)
    ]
