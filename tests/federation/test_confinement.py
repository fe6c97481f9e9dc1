"""SQL from outside: what may run, what may not, and what somebody tries to hide."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.federation.allowed_functions import ALLOWED
from penstock.federation.confinement import MOST_LETTERS_OF_SQL, RefusedSqlError, confine
from penstock.sql.aggregates import NO_FORM, UNSCALED, WEIGHTED
from tests.sql import cases

LENT = ("s", "m", "z", "rome.machines", "oslo.machines")
EXAMPLES = Path(__file__).parents[2] / "examples"
G = "GROUP BY window(ts, '1 second')"
FUNCTIONS = [
    "reflect('java.lang.Runtime', 'getRuntime')",
    "java_method('java.lang.System', 'getenv', 'PATH')",
    "try_reflect('java.lang.System', 'exit', 0)",
    "`reflect`('a', 'b')",
    "ReFlEcT('a', 'b')",
    "system.builtin.reflect('a', 'b')",
    "spark_catalog.default.max(v)",
    "penstock.estimate(v)",
    "evil.sum(v)",
    "input_file_name()",
    "input_file_block_start()",
    "current_user()",
    "session_user()",
    "user()",
    "current_catalog()",
    "current_database()",
    "version()",
    "spark_partition_id()",
    "raise_error('x')",
    "assert_true(v > 1)",
    "repeat('x', 1000000000)",
    "repeat('x', n)",
    "repeat(repeat(k, 100), 100)",
    "space(1000000000)",
    "lpad(k, 1000000000, 'x')",
    "rpad(k, 1000000000, 'x')",
    "sequence(1, 1000000000)",
    "array_repeat(v, 1000000000)",
    "explode(sequence(1, 1000000000))",
    "explode(a)",
    "stack(1000000, 1)",
    "format_string('%1000000000d', 1)",
    "printf('%1000000000d', 1)",
    "format_number(v, 1000000000)",
    "regexp_replace(k, '(a+)+b', 'x')",
    "rlike(k, '(a+)+b')",
    "replace(k, 'a', 'aaaaaaaa')",
    "xpath(k, '//a')",
    "from_json(k, 'a INT')",
    "from_csv(k, 'a INT')",
    "schema_of_json(k)",
    "ai_query('model', k)",
    "ai_gen(k)",
    "http_request('GET', 'x')",
    "secret('a', 'b')",
    "my_udf(v)",
    "transform(a, x -> x + 1)",
    "aggregate(a, 0, (x, y) -> x + y)",
    "try_to_binary(k)",
    "uuid()",
    "monotonically_increasing_id()",
    "java.lang.System.exit(0)",
    "identifier('k')",
    "max_by(k, v, 1000000000)",
    "max_by(k, v, n)",
    "percentile_approx(v, 0.5, 2000000000)",
    "concat(concat(k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k), concat(k, k, k, k, k, k, k, k, "
    "k, k, k, k, k, k, k, k), concat(k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k))",
    "CURRENT_USER",
    "k RLIKE '(a+)+b'",
    "k REGEXP '(a+)+b'",
    "_metadata.file_path",
    "s._metadata",
    "`_METADATA`",
    "'${env:PATH}'",
    "'${spark.app.id}'",
    "'a\\'",
    "avg(v) OVER (PARTITION BY k)",
    "CAST(v AS `java.lang.Object`)",
]
RELATIONS = [
    "parquet.`/etc/passwd`",
    "text.`/etc/passwd`",
    "`parquet`.`/etc/passwd`",
    "csv.`file:///etc`",
    "delta.`s3://x`",
    "`/etc/passwd`",
    "other",
    "kyoto.machines",
    "spark_catalog.rome.machines",
    "rome.machines.more",
    "information_schema.tables",
    "global_temp.secret",
    "range(1000000000)",
    "read_files('/etc/passwd')",
    "explode(array(1))",
    "VALUES (1, 2)",
    "(VALUES (1, 2)) AS v",
    "identifier('x')",
    "s TABLESAMPLE (10 PERCENT)",
    "s VERSION AS OF 1",
    "s TIMESTAMP AS OF '2020-01-01'",
    "s LATERAL VIEW explode(a) AS x",
    "s PIVOT (sum(v) FOR k IN ('a'))",
    "(SELECT * FROM parquet.`/x`) AS t",
    "(SELECT * FROM s UNION ALL SELECT * FROM other) AS t",
    "s UNION ALL other",
    "s UNION ALL parquet.`/x`",
    "s, s, s, s, s, s, s, s, s",
    "s JOIN other ON s.k = other.k",
    "s[Range 100 days Slide 1 ms]",
    "TABLE s",
]
TEXTS = [
    "",
    ";",
    "DROP TABLE s",
    "SELECT k FROM s; DROP TABLE s",
    "INSERT INTO s SELECT * FROM s",
    "CREATE TABLE t AS SELECT * FROM s",
    "CREATE TEMPORARY FUNCTION f AS 'x.Y'",
    "EXPLAIN SELECT k FROM s",
    "DESCRIBE s",
    "SET spark.x = 1",
    "ADD JAR 'x.jar'",
    "TABLE s",
    "VALUES (1)",
    "FROM s SELECT TRANSFORM(k) USING 'sh' AS (x)",
    "SELECT TRANSFORM(k) USING 'sh -c id' AS (x) FROM s",
    "SELECT /*+ BROADCAST(s) */ k FROM s",
    "SELECT /*+ REPARTITION(1000000) */ k FROM s",
    "SELECT 1",
    "SELECT k FROM s WHERE k IN (SELECT k FROM other)",
    "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM other)",
    "SELECT (SELECT max(reflect('a', 'b')) FROM s) FROM s",
    "WITH s AS (SELECT * FROM parquet.`/x`) SELECT * FROM s",
    "WITH a AS (SELECT * FROM a2), a2 AS (SELECT * FROM other) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT k FROM s UNION ALL SELECT k FROM a) SELECT * FROM a",
    f"SELECT avg(v) FROM s {G}, reflect('a', 'b')",
    f"SELECT avg(v) FROM s {G} HAVING java_method('a', 'b') = 'x'",
    "SELECT k FROM s ORDER BY reflect('a', 'b')",
    "SELECT avg(v) FILTER (WHERE reflect('a', 'b') = 'x') FROM s",
    "SELECT count(*) FROM s GROUP BY window(ts, '1000 days', '1 microsecond')",
    "SELECT count(*) FROM s GROUP BY window(ts, x, y)",
    "SELECT k FROM s\u200b",
    "SELECT k FROM s WHERE k = '\x00'",
    "SELECT k FROM s QUALIFY row_number() OVER (ORDER BY k) = 1",
    "SELECT k FROM s CLUSTER BY k",
    "SELECT k FROM s SORT BY k",
    "SELECT AS STRUCT k FROM s",
    "SELECT :a FROM s",
    "SELECT ? FROM s",
    "SELECT k INTO OUTFILE 'x' FROM s",
    "SELECT " + "(" * 200 + "k" + ")" * 200 + " FROM s",
    "SELECT " + "NOT " * 3000 + "k FROM s",
    "SELECT k" + " + 1" * 3000 + " FROM s",
    "SELECT " + "k, " * MOST_LETTERS_OF_SQL + "k FROM s",
    "(" * 5000,
]
ATTACKS = [
    *(f"SELECT {function} AS x FROM s" for function in FUNCTIONS),
    *(f"SELECT count(*) AS x FROM {relation}" for relation in RELATIONS),
    *TEXTS,
]


@pytest.mark.parametrize("sql", ATTACKS, ids=range(len(ATTACKS)))
def test_sql_that_does_more_than_select_is_refused(sql: str) -> None:
    with pytest.raises(RefusedSqlError) as refused:
        confine(sql, LENT)
    assert refused.value.reason in ("size", "text", "unreadable", "syntax", "function", "relation")


def wrapped(attack: str) -> st.SearchStrategy[str]:
    """Hides a harmful expression in harmless surroundings."""
    quiet = st.sampled_from(["", "/* k */ ", "-- x\n", "/* SELECT 1 */", "\n\t"])

    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(quiet, inner).map(lambda p: f"{p[0]}coalesce({p[1]}, NULL)"),
            inner.map(lambda x: f"CASE WHEN k = 'a' THEN {x} ELSE 1 END"),
            inner.map(lambda x: f"CAST(({x}) AS STRING)"),
            inner.map(lambda x: f"max(k) FILTER (WHERE ({x}) IS NULL)"),
            inner.map(lambda x: f"size(array(1, {x}))"),
        )

    hidden = st.recursive(st.just(attack), deeper, max_leaves=3)
    return st.tuples(hidden, quiet, st.sampled_from(PLACES)).map(
        lambda parts: parts[2].replace("EVIL", parts[1] + parts[0])
    )


PLACES = [
    "SELECT EVIL AS x FROM s",
    "WITH a AS (SELECT EVIL AS x FROM s) SELECT x FROM a",
    "SELECT x FROM (SELECT * FROM (SELECT EVIL AS x FROM s) AS b) AS c",
    "SELECT k FROM s WHERE k = EVIL",
    "SELECT k FROM s UNION ALL SELECT EVIL FROM m",
    "SELECT s.k FROM s JOIN m ON s.k = EVIL",
    f"SELECT count(*) FROM s {G}, EVIL HAVING count(*) > 1",
    "SELECT k FROM s WHERE k IN (SELECT EVIL FROM m)",
]


@given(st.sampled_from(FUNCTIONS[:40]).flatmap(wrapped))
def test_wherever_it_is_hidden_it_is_found(sql: str) -> None:
    with pytest.raises(RefusedSqlError):
        confine(sql, LENT)


@given(st.text(max_size=60), st.sampled_from([1, 5, 9]))
def test_any_text_is_passed_or_refused_and_nothing_else(text: str, cut: int) -> None:
    for sql in (text, f"SELECT {text} FROM s", f"SELECT k FROM {text}"[:-cut]):
        with suppress(RefusedSqlError):
            confine(sql, LENT)


def supported() -> list[tuple[str, tuple[str, ...]]]:
    """The queries that the table in the documents has, and those of the examples."""
    queries: list[tuple[str, tuple[str, ...]]]
    queries = [(case.sql, LENT) for case in cases.CASES if case.verdict != "refused"]
    for path in EXAMPLES.glob("*.yaml"):
        job = yaml.safe_load(path.read_text())
        queries += [(query["sql"], tuple(job["sources"])) for query in job["queries"].values()]
    return queries


SUPPORTED = supported()


@pytest.mark.parametrize(("sql", "lent"), SUPPORTED, ids=range(len(SUPPORTED)))
def test_the_queries_of_the_documents_pass(sql: str, lent: tuple[str, ...]) -> None:
    confine(sql, lent)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT window.start, avg(cpu) FROM rome.machines UNION ALL oslo.machines {G}",
        "SELECT avg(cpu) FROM (SELECT * FROM rome.machines UNION ALL SELECT * FROM oslo.machines) "
        + G,
        "SELECT CASE WHEN a > 1 THEN 'x' ELSE upper(k) END, a[1], st.x.y, -v FROM ROME.Machines",
        "SELECT EXTRACT(hour FROM ts), TRIM(BOTH 'x' FROM k), v BETWEEN 1 AND 2 FROM s",
        "SELECT k LIKE 'x%' FROM s",
        "SELECT CAST(v AS DECIMAL(10, 2)), 1L, ts + INTERVAL '1' DAY, DATE '2020-01-01' FROM s",
        "SELECT max_by(k, v, 5), first(k) IGNORE NULLS, count(DISTINCT k, v) FROM s " + G,
        "SELECT `odd name`, 'reflect(1)', \"x\" FROM s -- reflect('a')",
        "SELECT k FROM s WHERE k = 'FROM parquet.`/x` UNION ALL y'",
    ],
)
def test_ordinary_sql_passes(sql: str) -> None:
    confine(sql, LENT)


def test_every_aggregate_of_the_list_is_one_that_is_rewritten() -> None:
    assert set() == ALLOWED & NO_FORM
    assert {"sum", "max_by", "corr"} <= ALLOWED & (UNSCALED | WEIGHTED.keys())
