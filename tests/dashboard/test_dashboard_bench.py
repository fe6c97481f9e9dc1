"""What it costs to look at 200 queries on 20 sites: the benchmark, in its short form."""

from __future__ import annotations

import pytest

from penstock.lab.page_load import dashboard_bench

SHORT_SECONDS = 20.0


def rows(**per_second: float) -> list[dict[str, float]]:
    """Samples of ten minutes in which figures grow by so much a second."""
    names = ("tasks", "scripts", "layout", "heap_mb", "cpu", "oracle_mb")
    return [
        {"at": 30.0 * n, **{name: 30.0 * n * per_second.get(name, 0.0) for name in names}}
        for n in range(dashboard_bench.SAMPLES + 1)
    ]


def test_what_is_too_much_does_not_hold() -> None:
    assert all(dashboard_bench.figures(rows(tasks=0.09, cpu=0.04))["holds"].values())
    for name, growth, promise in (
        ("tasks", 0.11, "main thread"),
        ("cpu", 0.06, "oracle"),
        ("heap_mb", 10 / 600, "memory"),
        ("oracle_mb", 10 / 600, "memory"),
    ):
        holds = dashboard_bench.figures(rows(**{name: growth}))["holds"]
        assert [kept for kept in holds if not holds[kept]] == [promise]


@pytest.mark.alone
def test_the_page_and_the_oracle_are_light() -> None:
    """Whether memory is flat takes ten minutes to see: ``penstock bench dashboard``."""
    found = dashboard_bench.run(SHORT_SECONDS)
    assert found["main_thread_ms_per_second"] <= dashboard_bench.MOST_MAIN_THREAD_MS
    assert found["oracle_share_of_a_core"] <= dashboard_bench.MOST_ORACLE_SHARE
