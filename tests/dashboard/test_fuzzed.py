"""Requests made up from the OpenAPI documents: none of them breaks a server, none changes anything.

``PENSTOCK_FUZZ`` says how many for each operation; CI makes a few, and a thousand are made by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from tests.dashboard.federations import CITIES, a_watched_federation

TOKENS = {name: f"the-token-of-{name}-0123456789" for name in (*CITIES, "ann")}
EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ", "6"))
ENDLESS = "/live"
"""Its answer has no end, and it takes nothing."""
FUZZED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("fuzzed")
    with a_watched_federation(Path(directory), TOKENS, readers=True) as (oracle, _):
        yield oracle.address


def test_made_up_requests_break_nothing(oracle: str) -> None:
    headers = {"Authorization": f"Bearer {TOKENS['ann']}"}
    schema = schemathesis.openapi.from_url(f"{oracle}/openapi.json", headers=headers)
    tried: dict[str, int] = {}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if operation.path == ENDLESS:
            continue

        @FUZZED
        @given(case=operation.as_strategy(), with_token=st.booleans())
        def send(case: schemathesis.Case[Any], with_token: bool) -> None:
            response = case.call(headers=headers if with_token else {}, timeout=30)
            assert response.status_code < 500, (case.method, case.path, response.text)
            changes = case.method in ("POST", "DELETE")
            refused = response.status_code >= 400
            assert refused or with_token or not changes, (case.method, case.path)
            tried[case.path] = tried.get(case.path, 0) + 1

        send()
    print(f"{sum(tried.values())} requests: {tried}")  # seen with -s
    assert set(tried) >= {"/sites", "/queries", "/history", "/terms", "/sites/{site}/latency"}
