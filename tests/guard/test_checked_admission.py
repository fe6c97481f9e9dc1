"""Other promises than an average: in virtual time, against LAS' checks, and beside a sabotage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.guard.admission import Admission
from penstock.guard.checked_admission import AbsoluteAdmission, SlidingAdmission, holding
from penstock.guard.guard_plan import GuardPlan
from penstock.guard.hashes import fingerprints
from penstock.lab.las.checks import Absolute, SlidingAverage
from tests.guard.test_guard_promises import WAIT, Guarded

WAITS = st.lists(st.integers(0, 40).map(float), max_size=200)


class ShortSliding(SlidingAdmission):
    window = 8


def test_no_tuple_waits_for_longer_than_it_may() -> None:
    """The usual admission, which holds an average, breaks that promise."""
    checked, usual = Guarded(AbsoluteAdmission).run(), Guarded(Admission).run()
    assert max(checked.waits) <= WAIT + 1e-9
    assert max(usual.waits) > 1.1 * WAIT
    assert len(checked.waits) < 0.7 * checked.arrived
    assert checked.busy > 0.8 * usual.busy


def test_the_average_of_the_last_tuples_is_never_too_long() -> None:
    """In one task, whose function takes a second; the usual admission breaks that promise."""
    for kind, holds in ((ShortSliding, True), (Admission, False)):
        now, waits = [100.0], list[float]()

        def function(row: int, now: list[float] = now, waits: list[float] = waits) -> None:
            waits.append(now[0] - (100.0 - row % 7))
            now[0] += 1.0

        admission = kind(function, GuardPlan(20.0), lambda now=now: now[0])  # type: ignore[misc]
        rows = np.arange(300)
        arrived = 100.0 - (rows % 7).astype(np.float64)
        admission.admit(lambda places: places.tolist(), fingerprints(rows), arrived)
        averages = [np.mean(waits[max(end - 8, 0) : end]) for end in range(1, len(waits) + 1)]
        assert (max(averages) <= 20.0 + 1e-9) == holds
        assert admission.report.shed > 0 or not holds


@given(WAITS)
def test_decisions_are_those_of_las_checks(waits: list[float]) -> None:
    plan, block = GuardPlan(7.0), np.array(waits)
    absolute = AbsoluteAdmission(lambda row: row, plan, lambda: 0.0)
    check = Absolute(7.0)
    assert absolute._admits(block, block).tolist() == [not check.refuses(w) for w in waits]
    sliding, average = ShortSliding(lambda row: row, plan, lambda: 0.0), SlidingAverage(7.0, 8)
    assert sliding._admits(block, block).tolist() == [not average.refuses(w) for w in waits]


def test_errors_that_are_skipped_are_skipped_under_any_check() -> None:
    def fails(row: int) -> int:
        return 1 // row

    rows = np.array([1, 0, 1])
    make = holding("absolute", skip_errors=True)
    assert make is not None
    admission = make(fails, GuardPlan(1.0), lambda: 0.0)
    places, _ = admission.admit(lambda at: rows[at].tolist(), fingerprints(rows), np.zeros(3))
    assert places == [0, 2]
    assert admission.report.failed == 1


def test_an_unknown_check_is_told() -> None:
    with pytest.raises(PenstockError, match="check must be one of average, absolute, sliding"):
        holding("mean", skip_errors=False)  # type: ignore[arg-type]
    assert holding("average", skip_errors=False) is None
