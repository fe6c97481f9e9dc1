"""Which windows lack tuples, where their tuples are, and what is lost with a batch, by hand."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.errors import PenstockError
from penstock.jobs.load import load
from penstock.settle.past_query import LostBatch, PastQuery
from penstock.settle.survey import Survey
from penstock.settle.touched import Reach, Touched
from penstock.settle.window_shape import MICROS, WindowShape, window_shape
from penstock.spark.record.past_batches import PastBatch
from tests.settle.shed_job import FILES, QUERY, written_job

SLIDING = WindowShape("s", "at", 4 * MICROS, 2 * MICROS, 0, "begins", "start")


def at(second: float) -> int:
    return int(second * MICROS)


def past_query(batches: dict[int, PastBatch], shed: dict[int, int]) -> PastQuery:
    arrived = dict.fromkeys(range(8), 10)
    nothing = dict.fromkeys(arrived, 0) | shed
    return PastQuery("q", "id", Path(), cast(Any, None), batches, arrived, nothing, 3.0)


def timed(batch: int) -> PastBatch:
    """Each has two seconds of event time, and the watermark is three behind what came before."""
    return PastBatch(batch, 0.0, (), True, 2.0 * batch, 2.0 * batch + 2, 2.0 * batch - 3)


def test_windows_that_lack_tuples_are_those_of_the_tuples_that_were_shed() -> None:
    found = {5: {at(10): (6, 3), at(12): (2, 0), None: (1, 1)}, 6: {at(12): (8, 2)}}
    touched = Touched.of(Survey(Path(), SLIDING, cast(Any, found)))
    assert sorted(touched.windows(-inf, inf)) == [at(8), at(10), at(12)]
    assert touched.windows(at(9), at(14)) == {at(10)}
    assert {start: touched.kept(start) for start in (at(8), at(10), at(12))} == {
        at(8): 1 - 3 / 6,
        at(10): 1 - 5 / 16,
        at(12): 1 - 2 / 10,
    }


def test_a_window_is_in_the_batches_whose_times_it_meets() -> None:
    """Of those that shed, in those where it was found; one of which no times are known has all."""
    batches = {n: timed(n) for n in range(6)} | {6: PastBatch(6, 0.0, ())}
    past = past_query(batches, {3: 4})
    touched = Touched.of(Survey(Path(), SLIDING, {3: {at(8): (10, 4)}}))
    reach = Reach(past, touched)
    assert reach.of(at(6)) == {2, 3, 4, 5, 6}  # what ends or begins with it may be in it
    assert reach.of(at(0)) == {0, 1, 2, 6}


def test_what_is_lost_with_a_batch_is_bounded_by_watermarks() -> None:
    past = past_query({n: timed(n) for n in (0, 1, 2, 4, 5, 6)}, {})
    assert past.lost(3, "why") == LostBatch(3, 10, 0, "why", at(1), at(10))
    assert past.lost(6, "why").until == inf
    older = past_query({n: timed(n) for n in (5, 6, 7)}, {})
    assert (older.lost(2, "").since, older.lost(2, "").until) == (-inf, at(12))
    assert older.over == at(11)
    touched = Touched.of(Survey(Path(), SLIDING, {}))
    assert touched.blocked(at(12), [(-inf, at(12))])
    assert not touched.blocked(at(14), [(-inf, at(12))])
    assert not touched.blocked(at(0), [(at(4), at(12))])


SELECTS = {
    "SELECT window.start AS s, count(*) AS n FROM rides GROUP BY window(at, '4 seconds')": (
        4,
        4,
        "s",
        "start",
    ),
    "SELECT window.end, count(*) AS n FROM rides GROUP BY window(at, '1 minute', '10 s')": (
        60,
        10,
        "end",
        "end",
    ),
    "SELECT window(at, '4 seconds') AS w, count(*) AS n FROM rides GROUP BY window(at, '4 seconds')"
    "": (4, 4, "w", "window"),
    "SELECT window, count(*) AS n FROM rides GROUP BY window(at, '4 seconds') HAVING n > 2": (
        4,
        4,
        "window",
        "window",
    ),
}
REFUSED = {
    "SELECT at, route FROM rides": "only a query that groups by one time window",
    "SELECT route, count(*) AS n FROM rides[Rows 100] GROUP BY route": "one time window",
    "SELECT count(*) AS n FROM rides GROUP BY window(at, '4 seconds')": "add window.start",
    "SELECT date(window.start) AS d, count(*) AS n FROM rides GROUP BY window(at, '4 s')": "add w",
    "SELECT window.start, count(*) AS n FROM rides JOIN rides AS b ON rides.at = b.at "
    "GROUP BY window(rides.at, '4 seconds')": "one stream, once",
}


def loaded_with(tmp_path: Path, sql: str) -> Any:
    text = QUERY.replace("    bounds: true\n", "").partition("    sql:")[0] + f'    sql: "{sql}"\n'
    return load(written_job(tmp_path, FILES, text))


@pytest.mark.parametrize("sql", SELECTS)
def test_the_windows_of_a_query_are_found(tmp_path: Path, sql: str) -> None:
    shape = window_shape(loaded_with(tmp_path, sql), "fares")
    assert (shape.length / MICROS, shape.slide / MICROS, shape.column, shape.holds) == SELECTS[sql]
    assert (shape.source, shape.time) == ("rides", "at")


@pytest.mark.parametrize("sql", REFUSED)
def test_a_query_that_cannot_be_settled_is_refused_with_the_reason(
    tmp_path: Path, sql: str
) -> None:
    with pytest.raises(PenstockError, match=f"fares: .*{REFUSED[sql]}"):
        window_shape(loaded_with(tmp_path, sql), "fares")
