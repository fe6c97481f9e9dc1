"""SQL in, SQL out: verdicts, laws of the rewriting without Spark, and the table of the docs."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp

from penstock.sql import Source, SqlError, rewrite
from penstock.sql.aggregates import NO_FORM, UNSCALED, WEIGHTED
from penstock.sql.grammar import parse, text
from tests.sql.cases import CASES, COUNTED, SHAPES, SOURCES, WINDOW, Case, table

DOCS = Path(__file__).parents[2] / "docs" / "sql.md"
BEGIN, END = "<!-- table: begin -->\n", "\n<!-- table: end -->"


@pytest.mark.parametrize("case", [*CASES, *COUNTED], ids=lambda case: case.sql)
def test_verdicts(case: Case) -> None:
    assert case.found()[0] == case.verdict


def test_a_condition_stays_in_front_of_sessions() -> None:
    """Moved, it would leave tuples in a session that do not meet it, and make that longer."""
    window, session = (
        rewrite(f"SELECT count(*) AS c FROM s WHERE n > 4 GROUP BY {by}, k", SOURCES).sql
        for by in (WINDOW, "session_window(ts, '20 milliseconds')")
    )
    assert "FILTER(WHERE n > 4)" in window
    assert "WHERE n > 4 GROUP BY session_window(ts, '20 milliseconds'), k" in session
    assert "FILTER" not in session


def test_the_table_in_the_docs_is_what_the_code_does() -> None:
    """To write it anew: ``python -m tests.sql.test_rewrite``."""
    _, _, rest = DOCS.read_text().partition(BEGIN)
    assert rest.partition(END)[0] == table()


@pytest.mark.parametrize(
    ("cql", "sql"),
    [
        (
            "SELECT avg(v) AS a FROM s[Range 1 sec]",
            "SELECT avg(v) AS a FROM s GROUP BY window(s.ts, '1 second')",
        ),
        (
            "SELECT k, count(*) AS c FROM s[Range 15 min Slide 5 min] AS t WHERE v > 3 GROUP BY k",
            "SELECT k, count(*) AS c FROM s AS t WHERE v > 3 "
            "GROUP BY window(t.ts, '15 minute', '5 minute'), k",
        ),
        (
            "SELECT count(t.v) AS c FROM s[Range 500 ms] AS t HAVING t.v >= 50",
            "SELECT count(t.v) AS c FROM s AS t WHERE t.v >= 50 "
            "GROUP BY window(t.ts, '500 millisecond')",
        ),
    ],
)
def test_cql_windows_mean_the_same_as_window(cql: str, sql: str) -> None:
    assert rewrite(cql, SOURCES) == rewrite(sql, SOURCES)


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.sql)
def test_what_comes_out_is_sql_and_carries_marks(case: Case) -> None:
    tree = parse(case.rewritten().sql)
    names = [item.alias_or_name for item in tree.selects]
    assert names[-4:] == ["_weight", "_sic", "_missing", "_shown"]
    assert {node.name for node in tree.find_all(exp.Table)} & {"g_s", "g_m"}


def test_a_condition_leaves_the_information_alone() -> None:
    """Law 2: the sums of SIC have no condition, and no row is dropped where they are computed."""
    query = f"SELECT avg(v) AS a FROM s WHERE v > 30 GROUP BY {WINDOW} HAVING count(*) > 3"
    tree = parse(rewrite(query, SOURCES).sql)
    assert tree.args.get("where") is None
    assert tree.args.get("having") is None
    parts = {item.alias: text(item.this) for item in tree.selects if item.alias}
    sic = parts[parts["_sic"].removeprefix("double(").removesuffix(")")]
    assert sic == "sum(s._sic)"
    assert all(
        "FILTER(WHERE v > 30)" in part
        for name, part in parts.items()
        if name.startswith("_part") and "_sic" not in part
    )


@pytest.mark.parametrize(
    ("window", "sic"),
    [
        ("'6 seconds', '2 seconds'", "sum(s._sic / 3.0)"),
        ("'1 hour 30 minutes', '30 minutes', '5 minutes'", "sum(s._sic / 3.0)"),
        ("2000000, 1000000", "sum(s._sic / 2.0)"),
        ("'2 seconds', '2 seconds'", "sum(s._sic)"),
        ("'2 seconds', '0 seconds'", "sum(s._sic)"),  # Spark refuses it
        (
            "'5 seconds', '2 seconds', '1 second'",
            "sum(s._sic / ceil((5000000 - pmod(unix_micros(timestamp(ts)) - 1000000, 2000000)) "
            "/ 2000000))",
        ),
    ],
)
def test_law_2_sliding_windows_share_the_sic_of_a_tuple(window: str, sic: str) -> None:
    query = f"SELECT window.start, avg(v) AS a FROM s GROUP BY window(ts, {window})"
    parts = [text(item.this) for item in parse(rewrite(query, SOURCES).sql).selects if item.alias]
    assert sic in parts


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (
            "window(window, '5 seconds', '2 seconds')",
            "a window of windows must be a multiple of its slide, such as",
        ),
        (
            "window(window, '5 seconds', 'soon')",
            "a window must have durations, such as '10 minutes'; got 'soon'",
        ),
    ],
)
def test_windows_whose_number_cannot_be_known(window: str, message: str) -> None:
    inner = f"SELECT window, count(*) AS c FROM s GROUP BY {WINDOW}"
    with pytest.raises(SqlError, match=message):
        rewrite(f"SELECT sum(c) AS c FROM ({inner}) GROUP BY {window}", SOURCES)


def test_bounds_come_with_single_aggregates_only() -> None:
    query = f"SELECT k, avg(v) AS a, sum(v) / 2 AS h, max(v) AS b FROM s GROUP BY {WINDOW}, k"
    found = rewrite(query, SOURCES, confidence=0.9)
    assert [(c.name, c.kind, c.bounds) for c in found.columns] == [
        ("k", "plain", False),
        ("a", "weighted", True),
        ("h", "weighted", False),
        ("b", "unscaled", False),
    ]
    assert {item.alias for item in parse(found.sql).selects} > {"a_low", "a_high"}


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) FROM s JOIN m ON s.seq = m.seq GROUP BY {WINDOW}",
        f"SELECT count(*) FROM (SELECT s.ts FROM s JOIN z ON s.k = z.k) GROUP BY {WINDOW}",
        f"SELECT count(*) FROM (SELECT ts FROM s UNION ALL SELECT ts FROM s) GROUP BY {WINDOW}",
        f"SELECT count(*) FROM (SELECT ts, explode(array(1, 2)) FROM s) GROUP BY {WINDOW}",
    ],
)
def test_intervals_where_a_tuple_may_count_twice_are_refused(query: str) -> None:
    with pytest.raises(SqlError, match="one_to_one"):
        rewrite(query, SOURCES, confidence=0.95)
    assert rewrite(query, SOURCES, confidence=0.95, one_to_one=True).columns[0].bounds


@pytest.mark.parametrize(
    ("query", "message", "line"),
    [
        ("SELECT avg(v FROM s", "this is not SQL: expecting ) near 'FROM'", 1),
        ("SELECT avg(v)\nFROM\n  s WHERE (", "this is not SQL", 3),
        ("SELECT 'a FROM s", "a quote or a comment is not closed", None),
        ("", "the query is empty", None),
        ("SELECT 1 FROM s; SELECT 2 FROM s", "expected one query", None),
        ("DELETE FROM s", "expected a SELECT, found DELETE", None),
        ("SELECT v FROM sss", "unknown table 'sss'", None),
        ("SELECT v FROM S", None, None),
    ],
)
def test_mistakes_are_told_with_their_line(
    query: str, message: str | None, line: int | None
) -> None:
    if message is None:
        rewrite(query, SOURCES)
        return
    with pytest.raises(SqlError) as caught:
        rewrite(query, SOURCES)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_a_source_without_event_time_has_no_windows() -> None:
    sources = {"s": Source("g", None)}
    with pytest.raises(SqlError, match="the source has no 'time'"):
        rewrite(f"SELECT avg(v) FROM s GROUP BY {WINDOW}", sources)
    with pytest.raises(SqlError, match="has no event time"):
        rewrite("SELECT avg(v) FROM s[Range 1 sec]", sources)


def test_every_aggregate_is_one_of_three() -> None:
    assert not set(WEIGHTED) & UNSCALED
    assert not (set(WEIGHTED) | UNSCALED) & NO_FORM


if __name__ == "__main__":
    before, _, rest = DOCS.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(f"{before}{BEGIN}{table()}{END}{after}")


def test_a_name_that_an_interval_has_is_refused() -> None:
    with pytest.raises(SqlError, match="a_n: the interval of a has a column of this name"):
        rewrite("SELECT avg(v) AS a, count(*) AS a_n FROM s", SOURCES, confidence=0.95)
