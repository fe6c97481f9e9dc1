"""Two replicas as processes of their own, of which one is killed while it delivers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from penstock.federation.delivery import CAME, Delivery
from tests.federation.support import eventually

WINDOWS, BEFORE_THE_KILL = 60, 20
INTERVAL_SECONDS = 1.5
BETWEEN_WINDOWS_SECONDS = 0.02
START = datetime(2026, 1, 1, tzinfo=UTC)
pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")


class Batch:
    """Is what a replica has of one window, as Spark would hand it over."""

    def __init__(self, number: int, replica: int) -> None:
        better = number % 2 == replica  # one is better at the even windows, the other at the odd
        moment = START + timedelta(seconds=number)
        rows = {"ts": [moment], "by": [replica], CAME: [0.9 if better else 0.5]}
        self._table = pa.table(rows)

    def toArrow(self) -> Any:
        return self._table


def replicate(home: str, replica: int) -> None:
    """Delivers as one of two replicas, until it is killed."""
    place = Path(home)
    delivery = Delivery(place / "candidates", place / "out", replica, 2, INTERVAL_SECONDS, "ts")
    delivery.start()
    (place / f"ready-{replica}").touch()
    eventually(lambda: len(list(place.glob("ready-*"))) == 2, 120)
    for number in range(WINDOWS):
        delivery(Batch(number, replica), number)  # type: ignore[arg-type]
        time.sleep(BETWEEN_WINDOWS_SECONDS)
    time.sleep(600)


@contextmanager
def two_replicas(home: Path) -> Iterator[Sequence[BaseProcess]]:
    context = get_context("spawn")
    processes = [context.Process(target=replicate, args=(str(home), n)) for n in range(2)]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join()


def delivered(home: Path) -> list[Path]:
    return sorted((home / "out").glob("*.parquet"))


def test_when_a_replica_is_killed_the_other_goes_on_without_a_gap(tmp_path: Path) -> None:
    """Of the windows for which both had something in time, the better was delivered."""
    with two_replicas(tmp_path) as (first, _):
        eventually(lambda: len(delivered(tmp_path)) >= BEFORE_THE_KILL, 120)
        first.kill()  # wherever it is: writing a candidate, linking a result, cleaning up
        before = delivered(tmp_path)
        eventually(lambda: len(delivered(tmp_path)) == WINDOWS, 60)
    rows = [row for file in delivered(tmp_path) for row in pq.read_table(file).to_pylist()]
    assert [row["ts"] for row in rows] == [START + timedelta(seconds=n) for n in range(WINDOWS)]
    assert all(set(row) == {"ts", "by"} for row in rows)
    complete = {path.name for path in before}
    by = [
        r["by"] for r, path in zip(rows, delivered(tmp_path), strict=True) if path.name in complete
    ]
    chosen_well = sum(replica == number % 2 for number, replica in enumerate(by))
    assert chosen_well >= 0.9 * len(by)  # on a busy machine one may have been too late with some
    assert {row["by"] for row in rows} == {0, 1}
