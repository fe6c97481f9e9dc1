"""What a site was asked to run is read back from disk as it was."""

from pathlib import Path

import pytest

from penstock.federation.fragment_store import FragmentStore
from penstock.federation.messages import FragmentOrder, LentSource, Place
from penstock.federation.query_file import FederatedQuery

WRITTEN = {"rome": {"site": "rome", "sql": "SELECT 1"}, "root": {"sql": "SELECT 2"}}
QUERIES = [
    {"query": "a", "sql": "SELECT 1"},
    {"query": "b", "sql": "SELECT 1", "bounds": True, "replicas": {"root": 2}, "interval": "3s"},
    {"query": "c", "fragments": WRITTEN, "sink": {"format": "parquet", "path": "out"}},
    {"query": "d", "sql": "SELECT 1", "partition": {"copies": 2, "by": "k"}, "weight": 2.5},
]


@pytest.mark.parametrize("given", QUERIES)
def test_an_order_is_read_back_as_it_was(tmp_path: Path, given: dict[str, object]) -> None:
    order = FragmentOrder(
        query=FederatedQuery.model_validate(given),
        fragment="root",
        places={"root": [Place(site="rome", address="http://127.0.0.1:7101")]},
        catalog={"rome.machines": LentSource(columns="a INT", time=None)},
        schemas={"rome": "a INT"},
    )
    store = FragmentStore(tmp_path)
    store.keep(order)
    assert FragmentStore(tmp_path).all() == [order]
    store.forget(f"root@{given['query']}")
    assert store.all() == []


def test_a_file_that_is_no_order_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x.json").write_text('{"query": 1}')
    assert FragmentStore(tmp_path).all() == []
    assert "x.json" in caplog.text
    assert (tmp_path / "x.json").exists()
