"""The short form of the field's benchmarks: each runs to its end, and its truth is the ledger's.

Whether a promise holds is for the long form on a quiet machine (``penstock bench field-start``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.lab.field.broker import Broker
from penstock.lab.field.field_claims import Claim, summed_up
from penstock.lab.field.field_suite import ON_KAFKA, WITHOUT_KAFKA
from penstock.lab.field.field_truth import FieldBatch, FieldRun
from penstock.lab.field.stand import FieldOptions, Stand
from penstock.lab.field.watched import results

SECONDS = 4.0
CASES = [
    ("field-start", "six-fold"),
    ("field-neighbour", "core"),
    ("field-limits", "files-backlog"),
    ("field-outage", None),
    ("field-fair", None),
    ("field-idle", "kafka"),
]


def runs_in(told: Any) -> list[dict[str, Any]]:
    """All runs of a benchmark, whether it has cases or not."""
    parts = told["cases"].values() if "cases" in told else [told]
    return [run for part in parts for run in part["runs"]]


def assert_true(told: dict[str, Any]) -> None:
    """What was measured can be written down, and every tuple is accounted for."""
    json.dumps(told)
    assert told["holds"]
    assert runs_in(told)
    for run in runs_in(told):
        assert run.get("unaccounted", 0) == 0
        assert run.get("batches_missing", 0) == 0
        assert run.get("ledger_equals_offsets", True)
        assert run.get("ledger_balanced", True)
        assert all(batch["oldest"] > 0 for batch in run.get("batches", []))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_on_kafka(broker: Broker, tmp_path: Path, name: str, case: str | None) -> None:
    assert_true(ON_KAFKA[name](Stand(broker, tmp_path), FieldOptions(1, SECONDS, case)))


@pytest.mark.spark
@pytest.mark.long
def test_five_queries_from_cold() -> None:
    assert_true(WITHOUT_KAFKA["field-five"](FieldOptions(1, 10.0)))


TESTED_ELSEWHERE = {
    "field-kill",  # test_kafka kills a driver in mid-run and compares ledger and offsets
    "field-watch",  # reads a topic several times over, which is not short: see below
    "field-rivals",  # the same
}


def test_every_benchmark_has_a_short_form() -> None:
    assert {name for name, _ in CASES} == ON_KAFKA.keys() - TESTED_ELSEWHERE


def test_an_open_gate_on_kafka_changes_no_result(broker: Broker, tmp_path: Path) -> None:
    """As ``field-watch`` compares them: the same batches, and every row of every window."""
    stand = Stand(broker, tmp_path)
    topic = stand.topic()
    with stand.feed(topic, (0.0, 4000.0)) as feed:
        feed.wait_for(lambda: sum(broker.ends(topic).values()) >= 60_000, 60, "its messages")
        feed.end()
    plain = results(stand, topic, "plain")
    gated = results(stand, topic, "gated", latency=600.0)
    assert plain
    assert gated == plain


# --- figures worked out by hand ----------------------------------------------------------------


def batch(number: int, oldest: float, newest: float, ended: float, admitted: int) -> FieldBatch:
    return FieldBatch(number, newest, ended, 100, admitted, oldest, newest, (oldest, newest))


RUN = FieldRun(
    100.0,
    [
        batch(0, 100.0, 101.0, 108.0, 10),  # eight seconds old when it is committed
        batch(1, 101.0, 108.0, 111.0, 50),  # ten
        batch(2, 108.0, 111.0, 113.0, 20),  # five
        batch(3, 111.0, 113.0, 114.0, 30),  # three
    ],
)


def test_late_is_until_the_last_batch_with_an_old_tuple() -> None:
    assert RUN.late_until(4.5) == 13.0
    assert RUN.late_until(6.0) == 11.0
    assert RUN.late_until(6.0, last=10.0) == 8.0
    assert RUN.late_until(20.0) == 0.0


def test_stale_is_while_the_newest_result_is_old() -> None:
    """Up to 108 the start is older than 4 s from 104 on; 101 at once until 111; 108 from 112."""
    assert RUN.stale_seconds(4.0, 14.0) == pytest.approx(4.0 + 3.0 + 1.0)
    assert RUN.stale_seconds(20.0, 14.0) == 0.0


def test_what_is_admitted_a_second_counts_from_commit_to_commit() -> None:
    assert RUN.admitted_per_second(0, 20) == pytest.approx((50 + 20 + 30) / 6)
    assert RUN.worst(12) == 5.0


def test_a_claim_holds_where_it_holds_in_every_run() -> None:
    claim = Claim("late", "late", least=1.0, most=4.0)
    runs = [{"late": 3.0}, {"late": 4.0}]
    assert all(summed_up(runs, [claim])["holds"].values())
    for bad in (5.0, 0.5, float("nan"), None):
        assert not any(summed_up([*runs, {"late": bad}], [claim])["holds"].values())
    assert not any(summed_up([{}], [claim])["holds"].values())
