"""What the tests on Kafka share: a broker of their own, started when the first of them asks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from penstock.lab.field.broker import JAVA_OPTIONS, Broker
from tests.spark.support import QUICK


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test that uses the broker, so that ``make quick`` can leave it out; most of them
    start a job beside it, too.
    """
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One for each process that runs tests; where it cannot be had, they fail and say why."""
    if os.environ.get("PENSTOCK_SKIP_KAFKA") == "1":
        pytest.skip("PENSTOCK_SKIP_KAFKA is 1")
    with pytest.MonkeyPatch.context() as patch:
        options = (*JAVA_OPTIONS, *QUICK.split())
        patch.setattr("penstock.lab.field.broker.JAVA_OPTIONS", options)
        with Broker() as running:
            yield running
