"""What SQL becomes: the cases that the tests run, and that the table in docs/sql.md shows.

Tables: the streams ``s`` (ts, k, v, n, u, seq) and ``m`` (ts, seq, x, k), and ``z`` (k, name),
which is no stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql import Rewritten, Source, SqlError, rewrite

SOURCES = {"s": Source("g_s", "ts"), "m": Source("g_m", "ts"), "z": Source("z", None, False)}
WINDOW = "window(ts, '1 second')"


@dataclass(frozen=True)
class Case:
    sql: str
    verdict: str
    note: str = ""
    mode: str = "append"
    confidence: float | None = None

    def rewritten(self) -> Rewritten:
        return rewrite(self.sql, SOURCES, confidence=self.confidence, one_to_one=True)

    def found(self) -> tuple[str, str]:
        """The verdict of the code, and its reason where there is one."""
        try:
            kinds = {column.kind for column in self.rewritten().columns}
        except SqlError as error:
            return "refused", str(error)
        for kind, verdict in VERDICTS.items():
            if kind in kinds:
                return verdict, self.note
        return "passed", self.note


VERDICTS = {"weighted": "rewritten", "unscaled": "unscaled", "derived": "of estimates"}

AGGREGATES = {
    "count(*)": "Σw, rounded",
    "count(v)": "Σw where v is there",
    "count_if(v > 50)": "Σw where it holds",
    "count(*) FILTER (WHERE v > 50)": "Σw where it holds",
    "sum(n)": "Σwn; of whole numbers a whole number",
    "avg(v)": "Σwv / Σw",
    "var_pop(v)": "exactly Spark's where nothing was shed",
    "var_samp(v)": "exactly Spark's where nothing was shed",
    "stddev_pop(v)": "exactly Spark's where nothing was shed",
    "stddev(v)": "exactly Spark's where nothing was shed",
    "covar_pop(v, u)": "exactly Spark's where nothing was shed",
    "covar_samp(v, u)": "exactly Spark's where nothing was shed",
    "corr(v, u)": "no interval",
    "percentile_approx(v, 0.9)": "no interval",
    "percentile_approx(v, array(0.1, 0.5), 1000)": "no interval",
    "percentile(v, 0.9)": "no interval",
    "median(v)": "no interval",
    "sum(n) / count(*)": "each aggregate; no interval",
    "min(v)": "of what was admitted",
    "max(v)": "of what was admitted",
    "max_by(k, v)": "of what was admitted",
    "max_by(k, v, 2)": "the top k of what was admitted",
    "min_by(k, v)": "of what was admitted",
    "count(DISTINCT k)": "collected and counted; of what was admitted",
    "count(DISTINCT k, n)": "collected and counted; of what was admitted",
    "approx_count_distinct(k)": "of what was admitted",
    "size(collect_set(k))": "of what was admitted",
    "bool_or(v > 99)": "of what was admitted",
    "any(v > 99)": "of what was admitted",
}


def _verdict(expression: str) -> str:
    unscaled = ("min", "max", "count(DISTINCT", "approx_count", "size", "bool", "any")
    return "unscaled" if expression.startswith(unscaled) else "rewritten"


def aggregate(expression: str, note: str) -> Case:
    return Case(f"SELECT {expression} FROM s GROUP BY {WINDOW}", _verdict(expression), note)


SHAPES = [
    Case("SELECT * FROM s WHERE n = 3", "passed", "tuples carry `_sic` and `_weight`"),
    Case("SELECT k, v * 2 AS w FROM s", "passed", "tuples carry `_sic` and `_weight`"),
    Case(
        f"SELECT window.start, k, avg(v) AS a FROM s WHERE v > 30 GROUP BY {WINDOW}, k",
        "rewritten",
        "the condition moves into the aggregates: a window without survivors keeps its SIC",
    ),
    Case(
        f"SELECT k, count(*) AS c FROM s GROUP BY {WINDOW}, k HAVING c > 20 AND max(v) > 90",
        "rewritten",
        "HAVING sees the weighted values",
    ),
    Case(
        f"SELECT 100 % n AS r, count(*) AS c FROM s WHERE n > 0 "
        f"GROUP BY {WINDOW}, 100 % n HAVING 100 % n > 1",
        "rewritten",
        "groups are not computed where the condition fails",
    ),
    Case(
        f"SELECT 100 / n AS r, avg(v) AS a FROM s WHERE n > 0 GROUP BY {WINDOW}, 1",
        "rewritten",
        "also where they are named by number",
    ),
    Case(
        "SELECT window.start, sum(v) AS x FROM s "
        "GROUP BY window(ts, '2 seconds', '1 second') HAVING sum(v) > 0",
        "rewritten",
        "sliding windows share the SIC of a tuple",
    ),
    Case(
        "SELECT window.start, count(*) AS c FROM s GROUP BY window(ts, '5 seconds', '2 seconds')",
        "rewritten",
        "each tuple is in two or in three windows, which share its SIC",
    ),
    Case(
        "SELECT session_window.start, k, count(*) AS c FROM s WHERE n > 4 "
        "GROUP BY session_window(ts, '20 milliseconds'), k",
        "rewritten",
        "the condition stays: tuples that do not meet it would make sessions longer",
    ),
    Case(
        "SELECT window.start, avg(v) AS a FROM s[Range 1 sec]",
        "rewritten",
        "CQL: the same as GROUP BY window(ts, '1 second')",
    ),
    Case(
        "SELECT window.start, k, count(v) AS c FROM s[Range 2 sec Slide 1 sec] AS t "
        "GROUP BY k HAVING t.v >= 50",
        "rewritten",
        "CQL: HAVING on tuples is a condition",
    ),
    Case(
        "SELECT window.start, covar_pop(s.v, m.x) AS c "
        "FROM s[Range 1 sec], m[Range 1 sec] WHERE s.seq = m.seq",
        "rewritten",
        "tuples meet within a window; a pair weighs the product",
    ),
    Case(
        "SELECT s.k, m.x FROM s JOIN m ON s.seq = m.seq AND s.ts = m.ts WHERE s.n > 5",
        "passed",
        "pairs carry `_sic` and `_weight`",
    ),
    Case(
        f"SELECT z.name, sum(s.v) AS x FROM s JOIN z ON s.k = z.k GROUP BY {WINDOW}, z.name",
        "rewritten",
        "a table that is no stream has weight 1",
    ),
    Case(
        f"SELECT z.name, count(*) AS c FROM s LEFT JOIN z ON s.k = z.k GROUP BY {WINDOW}, z.name",
        "rewritten",
        "a table that is no stream has weight 1",
    ),
    Case(
        f"SELECT count(*) AS c FROM (SELECT ts, 100 / n AS r FROM s WHERE n > 0) WHERE r > 20 "
        f"GROUP BY {WINDOW}",
        "rewritten",
        "conditions of sub-queries move into the aggregates, too",
    ),
    Case(
        "WITH a AS (SELECT ts, v FROM s UNION ALL SELECT ts, x FROM m) "
        f"SELECT avg(v) AS a FROM a GROUP BY {WINDOW}",
        "rewritten",
        "UNION ALL: each tuple keeps its weight",
    ),
    Case(
        f"SELECT window.start, max_by(k, a, 3) AS top FROM (SELECT window, k, avg(v) AS a FROM s "
        f"GROUP BY {WINDOW}, k HAVING count(*) > 5) GROUP BY window",
        "of estimates",
        "an aggregate of aggregates is left as it is",
    ),
    Case(
        f"WITH a AS (SELECT window, k, avg(v) AS v FROM s GROUP BY {WINDOW}, k), "
        f"b AS (SELECT window, k, avg(x) AS x FROM m GROUP BY {WINDOW}, k) "
        "SELECT a.k, a.v - b.x AS d FROM a JOIN b ON a.window = b.window AND a.k = b.k",
        "passed",
        "`_sic` has the information of both",
    ),
    Case(
        "SELECT k, count(*) AS c FROM s GROUP BY k ORDER BY c DESC, k LIMIT 3",
        "rewritten",
        "only with `mode: complete`",
        mode="complete",
    ),
]

REFUSED = [
    "SELECT DISTINCT k FROM s",
    f"SELECT skewness(v) FROM s GROUP BY {WINDOW}",
    f"SELECT sum(DISTINCT n) FROM s GROUP BY {WINDOW}",
    f"SELECT regr_slope(v, u) FROM s GROUP BY {WINDOW}",
    f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM s GROUP BY {WINDOW}",
    "SELECT avg(v) OVER (PARTITION BY k) FROM s",
    "SELECT k, count(*) FROM s GROUP BY ALL",
    "SELECT k FROM s UNION SELECT k FROM m",
    "SELECT k FROM s INTERSECT SELECT k FROM m",
    "SELECT k FROM s EXCEPT SELECT k FROM m",
    "SELECT s.k FROM s LEFT JOIN m ON s.seq = m.seq",
    "SELECT s.k FROM s FULL OUTER JOIN m ON s.seq = m.seq",
    "SELECT k FROM s LEFT SEMI JOIN m ON s.seq = m.seq",
    "SELECT k FROM s WHERE k IN (SELECT k FROM m)",
    "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM m WHERE m.k = s.k)",
    "SELECT k FROM s WHERE v > (SELECT avg(x) FROM m)",
    "SELECT k FROM s TABLESAMPLE (10 PERCENT)",
    "SELECT a FROM (SELECT k AS a FROM s LIMIT 3)",
    f"SELECT count(*) FROM s GROUP BY {WINDOW} ORDER BY max(v)",
    "SELECT avg(u) FROM s GROUP BY window(u, '1 second')",
    "SELECT v FROM s[Range 1 sec]",
    "SELECT k AS _sic FROM s",
    "SELECT k FROM z",
    "SELECT 1",
]

COUNTED = [
    Case(
        "SELECT window.number, avg(v) AS a FROM s[Rows 100]",
        "rewritten",
        "CQL: windows of 100 rows that arrived, one after the other",
    ),
    Case(
        "SELECT window.start, k, count(v) AS c FROM s[Partition By k Rows 20 Slide 5] "
        "WHERE v > 30 GROUP BY k",
        "rewritten",
        "each `k` has windows of its own; they are counted before the condition",
    ),
    Case("SELECT v FROM s[Rows 100]", "refused"),
    Case("SELECT avg(v) FROM s[Rows 5 Slide 10]", "refused"),
    Case("SELECT avg(v) FROM s[Rows 5] JOIN z ON s.k = z.k", "refused"),
    Case("SELECT avg(v) FROM s[Rows 5] GROUP BY window(ts, '1 second')", "refused"),
    Case(
        "SELECT k FROM (SELECT k, avg(v) AS a FROM s[Rows 5] GROUP BY k) AS a JOIN m ON a.k = m.k",
        "refused",
    ),
]
"""Windows of rows, which only a stream has and a site alone."""

CASES = [
    *(aggregate(expression, note) for expression, note in AGGREGATES.items()),
    *SHAPES,
    *(Case(sql, "refused") for sql in REFUSED),
]


def table() -> str:
    """As Markdown."""
    rows = ["| SQL | what becomes of it | |", "|---|---|---|"]
    for case in [*CASES, *COUNTED]:
        verdict, note = case.found()
        sql = case.sql.replace("|", "\\|")
        if case.sql.endswith(f" FROM s GROUP BY {WINDOW}") and verdict != "refused":
            sql = sql.removeprefix("SELECT ").removesuffix(f" FROM s GROUP BY {WINDOW}")
        rows.append(f"| `{sql}` | {verdict} | {note} |")
    return "\n".join(rows)
