"""Splitting, without Spark: what fragments there are, what they run, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.federation.federated_sql import read_sql, written_out
from penstock.federation.fragment_plan import SplitQuery
from penstock.federation.messages import LentSource
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split
from penstock.sql import SqlError
from penstock.sql.grammar import parse, text

MACHINES = LentSource(
    columns="ts TIMESTAMP, k STRING, cpu DOUBLE, tags MAP<STRING, INT>", time="ts"
)
CATALOG = {f"{site}.machines": MACHINES for site in ("rome", "oslo", "kyoto", "north-2")} | {
    "rome.late": LentSource(columns="at TIMESTAMP, k STRING, cpu DOUBLE", time="at"),
    "rome.narrow": LentSource(columns="ts TIMESTAMP, k STRING", time="ts"),
    "rome.no_time": LentSource(columns="k STRING, cpu DOUBLE"),
}
UNION = "rome.machines UNION ALL oslo.machines"
SECOND = "GROUP BY window(ts, '1 second')"
SECOND_PANE = "window(ts, '1000000 microseconds', '1000000 microseconds', '0 microseconds')"


def fragments(sql: str | None = None, **more: Any) -> SplitQuery:
    return split(FederatedQuery.model_validate({"query": "q", "sql": sql, **more}), CATALOG)


def test_an_average_is_cut_into_sums() -> None:
    found = fragments(f"SELECT window.start, avg(cpu) AS a FROM {UNION} {SECOND}")
    rome, oslo, root = found.fragments
    assert [(f.name, f.site, f.kind, f.sources) for f in (rome, oslo)] == [
        ("rome", "rome", "partial", ("machines",)),
        ("oslo", "oslo", "partial", ("machines",)),
    ]
    assert rome.batch_query("batch 7") == (
        "SELECT max(ts) AS _time, sum(_weight * double(cpu)) AS _part_0, "
        "sum(nvl2(cpu, _weight, NULL)) AS _part_1, sum(_sic) AS _carried, "
        "sum(_sic * (_weight - 1.0)) AS _carried_missing "
        f"FROM `batch 7` AS machines GROUP BY {SECOND_PANE}"
    )
    assert (root.name, root.site, root.kind) == ("root", "any", "merge")
    assert dict(root.inputs) == {"links": ("rome", "oslo")}
    assert root.rewritten is not None
    assert root.rewritten.sql == (
        "SELECT window.start AS `start`, (_part_0 / _part_1) AS `a`, double(1.0) AS _weight, "
        "double(_carried) AS _sic, double(_carried_missing) AS _missing, TRUE AS _shown FROM "
        "(SELECT window, sum(_weight * _part_0) AS _part_0, sum(_weight * _part_1) AS _part_1, "
        "sum(_carried) AS _carried, sum(_carried_missing + ((_weight - 1.0) * (_carried + "
        "_carried_missing))) AS _carried_missing FROM `root@q:links` "
        "GROUP BY window(_time, '1 second')) AS below"
    )
    assert found.declared == 2
    assert found.unsplit is None
    assert found.time_of("root", "links") == "_time"


def test_sliding_windows_are_made_of_panes() -> None:
    found = fragments(
        f"SELECT window.start, max(cpu) AS m FROM {UNION} WHERE k = 'A' "
        "GROUP BY window(ts, '5 seconds', '2 seconds', '3 seconds')"
    )
    assert found.fragments[0].batch_sql == (
        "SELECT max(ts) AS _time, max(cpu) FILTER(WHERE k = 'A') AS _part_0, "
        "count(*) FILTER(WHERE k = 'A') AS _part_1, sum(_sic) AS _carried, "
        "sum(_sic * (_weight - 1.0)) AS _carried_missing FROM `{batch}` AS machines "
        "GROUP BY window(ts, '1000000 microseconds', '1000000 microseconds', '0 microseconds')"
    )


def test_the_largest_come_with_what_they_are_ordered_by() -> None:
    found = fragments(f"SELECT window.start, max_by(k, cpu, 5) AS top FROM {UNION} {SECOND}")
    root = found.fragments[-1].rewritten
    assert "max_by(named_struct('o', cpu, 'v', k), cpu, 5) AS _part_0" in (
        found.fragments[0].batch_sql or ""
    )
    assert root is not None
    assert "_part_0.v AS `top`" in root.sql
    assert "slice(sort_array(flatten(collect_list(_part_0)), FALSE), 1, 5) AS _part_0" in root.sql


def test_a_chain_has_a_relay_at_each_site_but_the_first() -> None:
    sql = f"SELECT window.start, k, count(*) AS c FROM {UNION} UNION ALL kyoto.machines {SECOND}, k"
    found = fragments(sql, shape="chain")
    assert [(f.name, f.kind, f.site, dict(f.inputs)) for f in found.fragments] == [
        ("rome", "partial", "rome", {}),
        ("oslo", "partial", "oslo", {}),
        ("oslo-relay", "relay", "oslo", {"links": ("rome", "oslo")}),
        ("kyoto", "partial", "kyoto", {}),
        ("kyoto-relay", "relay", "kyoto", {"links": ("oslo-relay", "kyoto")}),
        ("root", "merge", "any", {"links": ("kyoto-relay",)}),
    ]
    assert found.fragment("oslo-relay").batch_sql == (
        "SELECT max(_time) AS _time, _key_0, sum(_weight * _part_0) AS _part_0, "
        "sum(_carried) AS _carried, sum(_carried_missing + ((_weight - 1.0) * (_carried + "
        "_carried_missing))) AS _carried_missing FROM `{batch}` GROUP BY "
        "window(_time, '1000000 microseconds', '1000000 microseconds', '0 microseconds'), _key_0"
    )


def test_copies_share_the_groups() -> None:
    sql = f"SELECT window.start, upper(k) AS name, count(*) AS c FROM {UNION} {SECOND}, upper(k)"
    for by in ("name", "UPPER(K)"):
        found = fragments(sql, partition={"copies": 2, "by": by})
        assert found.receivers("rome") == ("copy-0", "copy-1")
        assert found.fragment("rome").routes == "pmod(xxhash64(_key_0), 2)"
        assert dict(found.fragments[-1].inputs) == {"links": ("copy-0", "copy-1")}


@pytest.mark.parametrize(
    "form",
    [
        "FROM rome.machines UNION ALL oslo.machines AS m",
        "FROM Rome.Machines /* FROM a.b UNION ALL c.d */ UNION  ALL -- and\n `oslo`.machines m",
        "FROM (SELECT * FROM rome.machines UNION ALL SELECT * FROM oslo.machines) AS m",
    ],
)
def test_forms_of_a_union_mean_the_same(form: str) -> None:
    found = fragments(
        f"SELECT window.start, avg(cpu) AS a {form} WHERE m.k = 'x UNION ALL y' {SECOND}"
    )
    assert [(f.name, f.sources) for f in found.fragments[:-1]] == [
        ("rome", ("machines",)),
        ("oslo", ("machines",)),
    ]
    root = found.fragments[-1].rewritten
    assert root is not None
    assert "SELECT * FROM `rome.machines` UNION ALL SELECT * FROM `oslo.machines`" in root.plain


@given(st.lists(st.sampled_from(["a.b", "`c-d`.e", "f.`g h`"]), min_size=1, max_size=4))
def test_texts_and_comments_are_left_alone(names: list[str]) -> None:
    union = " UNION ALL ".join(names)
    sql = f"SELECT 'FROM {union}', k /* FROM {union} */ FROM x -- FROM {union}"
    assert written_out(sql) == sql
    found = read_sql(f"SELECT k FROM {union} WHERE k = 'FROM {union}'", ".".join)
    assert list(found.reads) == [name.replace("`", "") for name in names]
    assert f"'FROM {union}'" in text(found.tree)
    assert parse(text(found.tree)) == found.tree


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            f"SELECT window.start, percentile(cpu, 0.9) AS p FROM {UNION} {SECOND}",
            "percentile cannot",
        ),
        (f"SELECT window.start, mode(k) AS m FROM {UNION} {SECOND}", "mode cannot be merged"),
        (
            "SELECT window.start, count(*) AS c FROM rome.machines[Range 1 sec] AS a, "
            "oslo.machines[Range 1 sec] AS b WHERE a.k = b.k",
            "joined before",
        ),
        (f"SELECT k FROM {UNION} WHERE cpu > 90", "no aggregate"),
        (
            f"SELECT count(*) AS c FROM {UNION} GROUP BY ROLLUP(k), window(ts, '1 s')",
            "only",
        ),
        (
            "SELECT window.start, count(*) AS c FROM (SELECT ts, k FROM rome.machines UNION ALL "
            f"SELECT ts, k FROM oslo.machines WHERE cpu > 1) AS m {SECOND}",
            "UNION ALL differ",
        ),
    ],
)
def test_what_cannot_be_split_says_why(sql: str, reason: str) -> None:
    found = fragments(sql.replace("'1 s'", "'1 second'"))
    assert found.unsplit is not None
    assert reason in found.unsplit
    assert {f.kind for f in found.fragments[:-1]} == {"forward"}
    assert found.fragments[0].time == "ts"


def test_only_needed_columns_are_forwarded() -> None:
    leaf = fragments(f"SELECT window.start, median(cpu) AS m FROM {UNION} {SECOND}").fragments[0]
    assert leaf.batch_sql == (
        "SELECT `ts`, `cpu`, _weight AS _sent_weight, _sic AS _carried, "
        "_sic * (_weight - 1.0D) AS _carried_missing, true AS _shown FROM `{batch}`"
    )


def test_sources_of_one_site_share_a_leaf() -> None:
    catalog = CATALOG | {"rome.spare": MACHINES}
    sql = f"SELECT window.start, sum(cpu) AS s FROM {UNION} UNION ALL rome.spare {SECOND}"
    found = split(FederatedQuery(query="q", sql=sql), catalog)
    assert [(f.name, f.sources) for f in found.fragments] == [
        ("rome", ("machines", "spare")),
        ("oslo", ("machines",)),
        ("root", ()),
    ]
    assert found.declared == 3


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT avg(cpu) FROM roma.machines " + SECOND,
            "unknown source 'roma.machines'; did|unknown",
        ),
        ("SELECT avg(cpu) FROM machines " + SECOND, "sources are called site.source"),
        ("SELECT avg(cpu) FROM a.rome.machines " + SECOND, "sources are called site.source"),
        ("SELECT 1", "reads no source"),
        (f"SELECT avg(cpu) FROM {UNION}", "an aggregate without a window never ends"),
        (f"SELECT avg(cpu) AS a FROM {UNION} {SECOND} ORDER BY a", "no first row"),
        (f"SELECT k FROM {UNION} LIMIT 3", "no first row"),
        (
            "SELECT k FROM rome.machines UNION ALL rome.late",
            "rome.late has at: sources of a UNION ALL",
        ),
        ("SELECT k FROM rome.machines UNION ALL rome.narrow", "must have the same, in one order"),
        (
            f"SELECT avg(cpu) FROM rome.no_time {SECOND}",
            "has no watermark; the source has no 'time'",
        ),
        (f"SELECT avg(cpu) FROM {UNION} GROUP BY window(at, '1 second')", "'at' has no watermark"),
        (f"SELECT skewness(cpu) FROM {UNION} {SECOND}", "no weighted form"),
        ("SELECT 'a FROM rome.machines", "not closed"),
    ],
)
def test_mistakes_are_told(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        fragments(sql)


@pytest.mark.parametrize(
    ("by", "sql", "message"),
    [
        (
            "x",
            f"SELECT k, count(*) FROM {UNION} {SECOND}, k",
            "must be a column of GROUP BY; got 'x'",
        ),
        ("k", f"SELECT count(*) FROM {UNION} {SECOND}", "there is none"),
        ("k)", f"SELECT k, count(*) FROM {UNION} {SECOND}, k", "must be a column of GROUP BY"),
        ("k", f"SELECT k, median(cpu) FROM {UNION} {SECOND}, k", "no groups to divide, since"),
    ],
)
def test_copies_need_a_group(by: str, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message.replace(")", r"\)")):
        fragments(sql, partition={"copies": 2, "by": by})


def test_long_names_of_sites_stay_names() -> None:
    sites = ["r" * 60 + end for end in ("-one", "-two")]
    catalog = {f"{site}.machines": MACHINES for site in (*sites, "root")}
    sql = " UNION ALL ".join(f"`{site}`.machines" for site in (*sites, "root"))
    query = FederatedQuery(
        query="q", sql=f"SELECT count(*) AS c FROM {sql} {SECOND}", shape="chain"
    )
    names = [fragment.name for fragment in split(query, catalog).fragments]
    assert len({name.lower() for name in names}) == len(names) == 6
    assert max(map(len, names)) <= 64
    assert names[-1] == "root"
