"""Fragments that are written out: who reads whom, and what is refused, with its place."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.federation.messages import LentSource
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split
from penstock.sql import SqlError

MACHINES = LentSource(columns="ts TIMESTAMP, k STRING, cpu DOUBLE", time="ts")
CATALOG = {f"{site}.machines": MACHINES for site in ("rome", "oslo")}
LEAF = "SELECT window.start AS at, sum(cpu) AS s FROM machines GROUP BY window(ts, '1 second')"
ROOT = "SELECT window.start, sum(s) AS s FROM {} GROUP BY window(at, '1 second')"


def planned(**given: Any) -> Any:
    fragments = {
        name: sql if isinstance(sql, dict) else {"sql": sql} for name, sql in given.items()
    }
    query = FederatedQuery.model_validate({"query": "q", "fragments": fragments})
    return split(query, CATALOG)


def leaf(site: str, sql: str = LEAF) -> dict[str, str]:
    return {"site": site, "sql": sql}


def test_senders_come_first_and_share_a_link() -> None:
    found = planned(root=ROOT.format("a UNION ALL b"), a=leaf("rome"), b=leaf("oslo"))
    assert [f.name for f in found.fragments][-1] == "root"
    assert {f.name: f.site for f in found.fragments} == {"a": "rome", "b": "oslo", "root": "any"}
    assert found.fragments[-1].inputs == {"links": ("a", "b")}
    assert found.fragment("a").sources == ("machines",)
    assert found.time_of("root", "links") == "at"
    assert found.declared == 2
    root = found.fragments[-1].rewritten
    assert "FROM (SELECT * FROM `a` UNION ALL SELECT * FROM `b`)" in root.plain
    assert "`root@q:links`" in root.sql


def test_a_fragment_runs_where_its_sources_are() -> None:
    sql = LEAF.replace("FROM machines", "FROM rome.machines")
    found = planned(root=ROOT.format("a"), a=sql)
    assert found.fragment("a").site == "rome"
    assert found.fragments[-1].inputs == {"a": ("a",)}


def test_joined_fragments_have_a_link_each() -> None:
    sql = "SELECT a.at, a.s + b.s AS s FROM a JOIN b ON a.at = b.at"
    found = planned(root=sql, a=leaf("rome"), b=leaf("oslo"))
    assert found.fragments[-1].inputs == {"a": ("a",), "b": ("b",)}
    assert found.time_of("root", "a") is None


def test_the_event_time_may_be_given() -> None:
    found = planned(root="SELECT at, s FROM a", a=leaf("rome") | {"time": "at"})
    assert found.time_of("root", "a") == "at"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"root": ROOT.format("a"), "a": ROOT.format("b"), "b": ROOT.format("a")}, "in a circle: "),
        ({"root": ROOT.format("root")}, "circle: root <- root"),
        (
            {"root": ROOT.format("a"), "a": leaf("rome"), "b": leaf("oslo")},
            r"fragments.b: nobody reads",
        ),
        (
            {"root": ROOT.format("aa"), "a": leaf("rome")},
            "fragments.root.sql: unknown table 'aa': did",
        ),
        ({"root": "SELECT 1"}, "fragments.root.sql: it reads no source"),
        (
            {"root": ROOT.format("a"), "a": leaf("kyoto")},
            r"fragments.a.sql: unknown table 'machines'",
        ),
        (
            {"root": ROOT.format("a"), "a": leaf("oslo", LEAF.replace("FROM ", "FROM rome."))},
            "fragments.a: it cannot run at oslo and rome",
        ),
        (
            {"root": ROOT.format("a").replace("at,", "ts,"), "a": leaf("rome") | {"time": "at"}},
            "fragments.root.sql: window.*the event time is at",
        ),
        (
            {"root": ROOT.format("machines"), "machines": leaf("rome")},
            "fragments.machines.sql: machines is a fragment and a source",
        ),
        (
            {"root": "SELECT avg(s) AS s FROM a", "a": leaf("rome")},
            "fragments.root.sql: an aggregate without a window",
        ),
        (
            {
                "root": "SELECT x.at FROM b AS x JOIN c AS y ON x.at = y.at",
                "a": leaf("rome"),
                "b": ROOT.format("a").replace("window.start", "window.start AS at"),
                "c": ROOT.format("a").replace("(at,", "(more,").replace("start", "start AS at"),
            },
            "fragments.a: others window its rows by at and more",
        ),
    ],
)
def test_mistakes_name_the_fragment(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SqlError, match=message):
        planned(**given)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bounds": 0.95}, "do not tell how sure their rows are"),
        ({"partition": {"copies": 2, "by": "k"}}, "only 'sql' is divided"),
    ],
)
def test_what_needs_a_query_that_penstock_splits(more: dict[str, Any], message: str) -> None:
    fragments = {"a": leaf("rome"), "root": {"sql": ROOT.format("a")}}
    query = FederatedQuery.model_validate({"query": "q", "fragments": fragments, **more})
    with pytest.raises(SqlError, match=message):
        split(query, CATALOG)
