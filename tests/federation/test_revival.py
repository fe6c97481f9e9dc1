"""When fragments that have failed are started again, with the time as an argument."""

from penstock.federation.revival import (
    CALM_INTERVALS,
    LONGEST_WAIT_INTERVALS,
    FailedFragment,
    Revival,
)

INTERVAL = 2.0
MINE = "root@load"


def test_a_fragment_that_fails_is_started_again_after_an_interval() -> None:
    revival = Revival(INTERVAL)
    assert revival.look([], 10.0) == ([], [])
    assert revival.look([MINE], 12.0) == ([FailedFragment(MINE, INTERVAL)], [])
    assert revival.look([MINE], 13.0) == ([], [])
    assert revival.look([MINE], 14.0) == ([], [MINE])
    assert revival.look([], 16.0) == ([], [])


def test_one_that_goes_on_failing_is_tried_ever_more_seldom_but_never_given_up() -> None:
    revival, now, waits = Revival(INTERVAL), 100.0, list[float]()
    for _ in range(8):
        ((_, wait),), _ = revival.look([MINE], now)
        waits.append(wait / INTERVAL)
        now += wait
        assert revival.look([MINE], now) == ([], [MINE])
        now += INTERVAL
    assert waits == [1, 2, 4, 8, *4 * [LONGEST_WAIT_INTERVALS]]


def test_one_whose_link_is_known_to_be_away_waits_an_interval_each_time() -> None:
    revival = Revival(INTERVAL)
    revival.look([MINE], 0.0)
    for now in (2.0, 4.0, 6.0):
        assert revival.look([MINE], now) == ([], [MINE])
        revival.wait(MINE, now)
        assert revival.look([MINE], now + INTERVAL / 2) == ([], [])
    assert revival.look([MINE], 8.0) == ([], [MINE])


def test_one_that_has_run_for_a_while_is_soon_tried_again() -> None:
    revival, now = Revival(INTERVAL), 0.0
    for _ in range(5):
        ((_, wait),), _ = revival.look([MINE], now)
        now += wait
        revival.look([MINE], now)
        now += 0.1
    assert revival.look([], now + CALM_INTERVALS * INTERVAL) == ([], [])
    assert revival.look([MINE], now + 100) == ([FailedFragment(MINE, INTERVAL)], [])


def test_one_that_was_removed_is_not_started_again() -> None:
    revival = Revival(INTERVAL)
    revival.look([MINE, "rome@load"], 0.0)
    assert revival.look(["rome@load"], 1.0) == ([], [])
    assert revival.look(["rome@load"], 9.0) == ([], ["rome@load"])
    assert revival.look([MINE], 10.0).failed == [FailedFragment(MINE, INTERVAL)]
