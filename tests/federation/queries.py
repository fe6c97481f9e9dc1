"""Queries over sources of three sites: those that are split, and those over forwarded tuples."""

from __future__ import annotations

from penstock.federation.messages import LentSource

SITES = ("rome", "oslo", "kyoto")
MACHINES = "ts TIMESTAMP, seq BIGINT, k STRING, cpu DOUBLE, mem DOUBLE, n INT"
CATALOG = {f"{site}.machines": LentSource(columns=MACHINES, time="ts") for site in SITES} | {
    "rome.spare": LentSource(columns=MACHINES, time="ts")
}
UNION = "rome.machines UNION ALL oslo.machines UNION ALL kyoto.machines"
SECOND = "GROUP BY window(ts, '1 second')"


def _each(columns: str, ending: str = SECOND, union: str = UNION) -> str:
    return f"SELECT window.start, {columns} FROM {union} {ending}"


def _windows(columns: str, window: str) -> str:
    return _each(columns, f"GROUP BY window(ts, {window})")


SPLIT = [
    _each("avg(cpu) AS cpu, count(*) AS c"),
    _each("k, count(cpu) AS c, sum(n) AS s, avg(n) AS a", f"UNION ALL rome.spare {SECOND}, k"),
    _each("min(cpu) AS a, max(cpu) AS b, sum(mem) AS c"),
    _each("max_by(seq, cpu, 5) AS top, min_by(seq, cpu, 3) AS low"),
    _each("max_by(seq, cpu) AS a, min_by(seq, mem) AS b"),
    _each("covar_samp(cpu, mem) AS a, corr(cpu, mem) AS b, covar_pop(mem, cpu) AS c"),
    _each("stddev(cpu) AS a, var_pop(mem) AS b, var_samp(cpu) AS c"),
    _each("k, avg(cpu) AS a", f"WHERE n > 3 {SECOND}, k HAVING count(*) > 6"),
    _each("count(*) FILTER (WHERE n = 3) AS a, count_if(cpu > 50) AS b, sum(cpu) / count(*) AS d"),
    _each("max_by(seq, cpu, 2) FILTER (WHERE n < 4) AS c", f"WHERE cpu > 70 {SECOND}"),
    _each("count(DISTINCT n) AS a, sort_array(collect_set(k)) AS b, bool_or(n > 8) AS c"),
    _each("any(n > 9) AS d, sort_array(collect_list(n)) AS e"),
    _each("upper(k) AS u, avg(cpu) AS a", f"AS m {SECOND}, UPPER(m.K)"),
    _each("100 % n AS r, count(*) AS c", f"WHERE n > 0 {SECOND}, 2"),
    _windows("avg(cpu) AS a", "'2 seconds', '1 second'"),
    _windows("count(*) AS c, sum(n) AS s", "'5 seconds', '2 seconds'"),
    _windows("count(*) AS c", "'3 seconds', '3 seconds', '500 milliseconds'"),
    _each("count(*) AS c", "", f"{UNION}[Range 2 sec Slide 1 sec]"),
    "WITH m AS (SELECT ts, cpu * 2 AS x, k FROM rome.machines WHERE n > 2 UNION ALL "
    "SELECT ts, cpu * 2 AS x, k FROM oslo.machines WHERE n > 2) "
    f"SELECT window.start, k, avg(x) AS a FROM m WHERE x > 40 {SECOND}, k",
    "WITH busy AS (SELECT window, k, avg(cpu) AS cpu FROM rome.machines UNION ALL oslo.machines "
    f"{SECOND}, k), spare AS (SELECT window, k, avg(mem) AS mem FROM kyoto.machines {SECOND}, k) "
    "SELECT busy.window.start, max_by(busy.k, busy.cpu, 2) AS ks FROM busy JOIN spare "
    "ON busy.window = spare.window AND busy.k = spare.k WHERE spare.mem > 40 GROUP BY busy.window",
    "SELECT window.start, max_by(k, a, 2) AS ks FROM (SELECT window, k, avg(cpu) AS a FROM "
    f"{UNION} {SECOND}, k HAVING count(*) > 2) GROUP BY window",
]
"""All aggregates that merge; groups, conditions, windows that slide, and aggregates of them."""
FORWARDED = [
    _each("percentile(cpu, 0.5) AS m, count(*) AS c", f"WHERE n > 1 {SECOND}"),
    "SELECT window.start, covar_pop(a.cpu, b.cpu) AS c, count(*) AS n FROM "
    "rome.machines[Range 1 sec] AS a, oslo.machines[Range 1 sec] AS b WHERE a.seq = b.seq",
    "SELECT ts, k, cpu FROM rome.machines UNION ALL oslo.machines WHERE cpu > 90",
    "SELECT * FROM rome.machines UNION ALL rome.spare",
    "SELECT a.k, b.mem FROM rome.machines AS a JOIN rome.machines AS b "
    "ON a.seq = b.seq AND a.ts = b.ts",
]
"""Percentiles, joins, and tuples as they are."""
