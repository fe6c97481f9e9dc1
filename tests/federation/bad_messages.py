"""Makes messages that a site has to refuse, each with the reason by which it must be counted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.federation.support import TOKEN

KNOWN_QUERY = "load"
KNOWN_SEQUENCE = 1_000_000
KNOWN_UPDATE = {"query": KNOWN_QUERY, "sic": 0.5, "at": 1.0, "seq": KNOWN_SEQUENCE}
MACHINES = {"columns": "ts TIMESTAMP, cpu DOUBLE", "time": "ts"}
"""The only source that the site lends."""
JSON = "application/json"
NAN, INFINITY = float("nan"), float("inf")


class Bad(NamedTuple):
    """Is a request that must be refused, as its bytes."""

    kind: str
    reason: str
    raw: bytes


def request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    token: str | None = TOKEN,
    kind: str = JSON,
    length: int | None = None,
    headers: str = "",
) -> bytes:
    """Writes a request; ``length`` is what its header says, if not the truth."""
    said = len(body) if length is None else length
    bearer = "" if token is None else f"Authorization: Bearer {token}\r\n"
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{bearer}{headers}"
        f"Content-Type: {kind}\r\nContent-Length: {said}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def good_update(luck: random.Random) -> dict[str, Any]:
    return {
        "query": KNOWN_QUERY,
        "sic": luck.random(),
        "at": luck.uniform(0, 2e9),
        "seq": KNOWN_SEQUENCE + luck.randrange(1, 10**6),
    }


def good_order(luck: random.Random) -> dict[str, Any]:
    return {
        "query": {
            "query": f"q{luck.randrange(10**6)}",
            "sql": "SELECT window.start AS ts, count(*) AS n FROM rome.machines "
            "GROUP BY window(ts, '1 second')",
            "sink": {"format": "noop"},
        },
        "fragment": "rome",
        "places": {"root": [{"site": "rome", "address": "http://127.0.0.1:1"}]},
        "catalog": {"rome.machines": dict(MACHINES)},
    }


Made = tuple[str, bytes]
"""Is a reason, and a request."""


def wrong_token(luck: random.Random) -> Made:
    worse = [
        None,
        "",
        TOKEN[:-1],
        TOKEN + "x",
        TOKEN.upper(),
        TOKEN[::-1],
        "x" * luck.randrange(1, 4000),
        "\u00fc" * 20,
        "Bearer " + TOKEN,
    ]
    path = luck.choice(["/update-sic", "/fragments", "/nowhere"])
    return "bad-token", request("POST", path, to_json(good_update(luck)), token=luck.choice(worse))


def two_tokens(luck: random.Random) -> Made:
    headers = f"Authorization: Bearer {TOKEN}\r\n"
    return "bad-token", request("POST", "/update-sic", to_json(good_update(luck)), headers=headers)


def no_number(luck: random.Random) -> Made:
    name = luck.choice(
        ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "9" * 400, "1" + "0" * 30]
    )
    key = luck.choice(["sic", "at", "seq"])
    fields = {name: json.dumps(value) for name, value in good_update(luck).items()}
    text = ", ".join(f'"{name}": {value}' for name, value in {**fields, key: name}.items())
    return "bad-json", request("POST", "/update-sic", f"{{{text}}}".encode())


def bad_json(luck: random.Random) -> Made:
    good = to_json(good_update(luck))
    bad = [
        b"",
        b"nonsense",
        good[: luck.randrange(1, len(good))],
        good + b"}",
        b"\xff\xfe" + good,
        good.decode().encode("utf-16"),
        b'{"query": "load", "query": "load"}',
        b"[" * luck.randrange(20, 900),
        b'{"a":' * luck.randrange(20, 100) + b"1" + b"}" * 5,
        b'{"query": "\\ud800"}',
        good.replace(b'"', b"'"),
        b"// a comment\n" + good,
        good[:-1] + b",}",
    ]
    return "bad-json", request("POST", "/update-sic", luck.choice(bad))


def another_type_of_content(luck: random.Random) -> Made:
    kind = luck.choice(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
    return "bad-json", request("POST", "/update-sic", to_json(good_update(luck)), kind=kind)


def too_large(luck: random.Random) -> Made:
    body = to_json({**good_update(luck), "query": "x" * luck.randrange(1_000, 60_000)})
    if luck.random() < 0.5:
        return "too-large", request("POST", "/update-sic", body)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in pieces(body, 700))
    head = (
        "POST /update-sic HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: {JSON}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    return "too-large", head.encode() + chunks + b"0\r\n\r\n"


def said_to_be_huge(luck: random.Random) -> Made:
    length = luck.choice([5 * 10**6, 10**9, 10**18])
    return "too-large", request("POST", "/update-sic", b"{}", length=length)


def body_where_none_belongs(luck: random.Random) -> Made:
    method, path = luck.choice([("GET", "/statistics"), ("DELETE", "/fragments/a@load")])
    return "too-large", request(method, path, to_json(good_update(luck)))


def longer_than_sent(luck: random.Random) -> Made:
    body = to_json(good_update(luck))
    return "truncated", request("POST", "/update-sic", body, length=len(body) + 100)


def shorter_than_sent(luck: random.Random) -> Made:
    body = to_json(good_update(luck))
    return "bad-json", request("POST", "/update-sic", body, length=len(body) - 10)


def not_http(luck: random.Random) -> Made:
    raw = [
        luck.randbytes(luck.randrange(50, 200)).replace(b"\n", b" ") + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + luck.randbytes(40) + b"\r\n\r\n",
        b"POST /update-sic HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /update-sic HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 600_000 + b"\r\n\r\n",
        b"GET  /health\r\n\r\n",
    ]
    return "not-http", luck.choice(raw)


def wrong_values(luck: random.Random) -> Made:
    wrong: dict[str, list[Any]] = {
        "query": ["", "../../etc", "a b", "x" * 65, 5, None, ["load"], "load\n", "a/b", "\u0000"],
        "sic": [-0.001, 1.001, -1e300, "0.5", None, True, [0.5], {}],
        "at": [-1, "now", None, False, []],
        "seq": [-1, 0.5, 1.0, "7", None, True, [], 2**53 - 1],
    }
    key = luck.choice(list(wrong))
    update = {**good_update(luck), key: luck.choice(wrong[key])}
    return "bad-message", request("POST", "/update-sic", to_json(update))


def other_keys(luck: random.Random) -> Made:
    update = good_update(luck)
    if luck.random() < 0.5:
        del update[luck.choice(list(update))]
    else:
        update[luck.choice(["sick", "__class__", "token", "", "Seq"])] = 1
    return "bad-message", request("POST", "/update-sic", to_json(update))


def no_object(luck: random.Random) -> Made:
    value = luck.choice([[], [good_update(luck)], "load", 5, None, True])
    return "bad-message", request("POST", "/update-sic", to_json(value))


def wrong_order(luck: random.Random) -> Made:
    order = good_order(luck)
    spoil: list[Callable[[], object]] = [
        lambda: order.update(incarnation=-1),
        lambda: order.update(replica=3),
        lambda: order.update(command="rm"),
        lambda: order["query"].update(sql="SELECT 1" + " " * 20_001),
        lambda: order["query"].update(fragments={}),
        lambda: order["query"].update(jar="http://example.org/a.jar"),
        lambda: order.update(places={"../root": []}),
        lambda: order["places"]["root"][0].update(address="file:///etc/passwd"),
        lambda: order.update(places={f"f{n}": [] for n in range(65)}),
        lambda: order.update(catalog=[]),
        lambda: order.pop("query"),
        lambda: order.update(submitter="x" * 65),
    ]
    luck.choice(spoil)()
    return "bad-message", request("POST", "/fragments", to_json(order))


def old_sequence(luck: random.Random) -> Made:
    update = {**good_update(luck), "seq": luck.randrange(KNOWN_SEQUENCE + 1)}
    return "old-sequence", request("POST", "/update-sic", to_json(update))


def replayed(luck: random.Random) -> Made:
    """An update that was accepted once, to the byte."""
    del luck
    return "old-sequence", request("POST", "/update-sic", to_json(KNOWN_UPDATE))


def unknown_query(luck: random.Random) -> Made:
    update = {**good_update(luck), "query": f"other{luck.randrange(10**9)}"}
    return "unknown-query", request("POST", "/update-sic", to_json(update))


def unknown_fragment(luck: random.Random) -> Made:
    name = luck.choice(["other@load", "root@other", "root@load@1", f"f{luck.randrange(999)}@load"])
    return "unknown-fragment", request("DELETE", f"/fragments/{name}")


def name_of_no_fragment(luck: random.Random) -> Made:
    names = ["root", "root@", "@load", "root@load@0", "root@load@1@2", "root@lo%20ad", "%00", "..."]
    return "bad-message", request("DELETE", f"/fragments/{luck.choice(names)}")


def bad_order(luck: random.Random, reason: str, sql: str) -> Made:
    order = good_order(luck)
    order["query"]["sql"] = sql
    return reason, request("POST", "/fragments", to_json(order))


def spaced(luck: random.Random, sql: str) -> str:
    """Writes SQL with other spaces, cases and comments, which mean the same."""
    gaps = [" ", "  ", "\n", "\t", " /* avg(cpu) */ ", " -- harmless\n"]
    cased = luck.choice([sql, sql.upper(), sql.lower()]) if "'" not in sql else sql
    return "".join(luck.choice(gaps) if sign == " " else sign for sign in cased)


def sql_that_reads_a_file(luck: random.Random) -> Made:
    kind = luck.choice(["parquet", "text", "csv", "json", "orc", "binaryFile", "delta", "`text`"])
    place = luck.choice(["/etc/passwd", "file:///etc/shadow", "../../rome/ledger", "s3a://x/y"])
    sql = luck.choice(
        [
            f"SELECT * FROM {kind}.`{place}`",
            f"SELECT ts, cpu FROM rome.machines UNION ALL SELECT * FROM {kind}.`{place}`",
            f"SELECT * FROM rome.machines WHERE cpu IN (SELECT value FROM {kind}.`{place}`)",
            f"SELECT * FROM read_files('{place}')",
            f"SELECT * FROM `{place}`",
        ]
    )
    return bad_order(luck, "bad-sql", spaced(luck, sql))


FUNCTIONS_OF_NO_LIST = (
    *("reflect('java.lang.Runtime', 'exit', 1)", "java_method('java.lang.System', 'getenv')"),
    *("input_file_name()", "current_user()", "version()", "from_json('{}', 'a INT')", "uuid()"),
    *(
        "ai_query('m', cpu)",
        "transform(array(cpu), x -> x)",
        "my_function(cpu)",
        "space(999999999)",
    ),
    *("regexp_replace('a', '(a+)+b', '')", "system.builtin.reflect('a', 'b')", "sequence(1, 99)"),
)


def sql_with_a_function_of_no_list(luck: random.Random) -> Made:
    call = luck.choice(FUNCTIONS_OF_NO_LIST)
    sql = luck.choice(
        [
            f"SELECT ts, {call} AS x FROM rome.machines",
            f"SELECT * FROM rome.machines WHERE {call} = 'x'",
            f"SELECT window.start, max({call}) AS x FROM rome.machines "
            "GROUP BY window(ts, '1 second')",
            f"SELECT window.start, count(*) AS n FROM rome.machines "
            f"GROUP BY window(ts, '1 second') HAVING max(coalesce({call}, 'x')) = 'x'",
        ]
    )
    return bad_order(luck, "bad-sql", sql)


def sql_hidden_in_a_comment(luck: random.Random) -> Made:
    """What looks like a comment to one reader, and like SQL to another."""
    call = luck.choice(["reflect('a', 'b')", "input_file_name()", "java_method('a', 'b')"])
    sql = luck.choice(
        [
            f"SELECT ts, /* */ {call} /* */ AS x FROM rome.machines",
            f"SELECT ts, -- cpu\n {call} AS x FROM rome.machines",
            f"SELECT /* /* */ */ ts, {call} AS x FROM rome.machines",
            f"SELECT ts, cpu -- \\\n, {call} AS x\n FROM rome.machines",
            f"SELECT ts, {call.replace('(', ' /* avg */ (', 1)} AS x FROM rome.machines",
            "SELECT /*+ BROADCAST(m) */ ts, cpu FROM rome.machines AS m",
            f"SELECT ts, cpu FROM rome.machines; DROP TABLE x -- {call}",
        ]
    )
    return bad_order(luck, "bad-sql", sql)


def sql_hidden_in_a_common_table(luck: random.Random) -> Made:
    call = luck.choice(["reflect('a', 'b')", "input_file_name()", "current_user()"])
    sql = luck.choice(
        [
            f"WITH a AS (SELECT ts, {call} AS x FROM rome.machines) SELECT * FROM a",
            "WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a",
            "WITH a AS (WITH b AS (SELECT * FROM csv.`/etc`) SELECT * FROM b) SELECT * FROM a",
            f"WITH a AS (SELECT * FROM rome.machines), b AS (SELECT ts, {call} AS x FROM a) "
            "SELECT * FROM b",
            "WITH machines AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM rome.machines",
        ]
    )
    return bad_order(luck, "bad-sql", sql)


def sql_of_what_is_not_lent(luck: random.Random) -> Made:
    order = good_order(luck)
    table = luck.choice(["rome.secrets", "oslo.machines", "root@load", "`root@load~links`"])
    order["query"]["sql"] = order["query"]["sql"].replace("rome.machines", table)
    return "bad-sql", request("POST", "/fragments", to_json(order))


def source_that_the_sender_made_up(luck: random.Random) -> Made:
    """The sender says that the site lends it."""
    order = good_order(luck)
    name = luck.choice(["secrets", "ledger", "machines2"])
    order["catalog"] = {f"rome.{name}": dict(MACHINES)}
    order["query"]["sql"] = order["query"]["sql"].replace("rome.machines", f"rome.{name}")
    return "unknown-source", request("POST", "/fragments", to_json(order))


def result_where_none_belongs(luck: random.Random) -> Made:
    order = {**good_order(luck), "fragment": "root"}
    path = luck.choice(["/etc/cron.d/x", "../../other/out", "s3a://x/y", "a/../../b"])
    order["query"]["sink"] = luck.choice(
        [
            {"format": "parquet", "path": path},
            {"format": luck.choice(["jdbc", "kafka", "text", "delta"]), "path": "out"},
            {"format": "csv", "path": "out", "options": {"path": path}},
        ]
    )
    return "forbidden", request("POST", "/fragments", to_json(order))


def path_tricks(luck: random.Random) -> Made:
    paths = [
        "/fragments/../../etc/passwd",
        "/fragments/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "//update-sic",
        "/update-sic/",
        "/UPDATE-SIC",
        "/fragments/root@load/..",
        "/update-sic%00",
        "/static/../site.yaml",
        f"/{luck.randrange(10**9)}",
    ]
    method = luck.choice(["GET", "DELETE"])
    return "unknown-path", request(method, luck.choice(paths))


def wrong_method(luck: random.Random) -> Made:
    method, path = luck.choice(
        [("PUT", "/fragments"), ("GET", "/update-sic"), ("DELETE", "/statistics")]
    )
    body = to_json({}) if method == "PUT" else b""
    return "wrong-method", request(method, path, body)


MAKERS: list[Callable[[random.Random], Made]] = [
    wrong_token,
    two_tokens,
    no_number,
    bad_json,
    another_type_of_content,
    too_large,
    said_to_be_huge,
    body_where_none_belongs,
    longer_than_sent,
    shorter_than_sent,
    not_http,
    wrong_values,
    other_keys,
    no_object,
    wrong_order,
    old_sequence,
    replayed,
    unknown_query,
    unknown_fragment,
    name_of_no_fragment,
    sql_that_reads_a_file,
    sql_with_a_function_of_no_list,
    sql_hidden_in_a_comment,
    sql_hidden_in_a_common_table,
    sql_of_what_is_not_lent,
    source_that_the_sender_made_up,
    result_where_none_belongs,
    path_tricks,
    wrong_method,
]


def good_heartbeat(luck: random.Random) -> dict[str, Any]:
    return {
        "site": "rome",
        "address": "http://127.0.0.1:7101",
        "seq": KNOWN_SEQUENCE + luck.randrange(1, 10**6),
        "interval": 2.0,
        "statistics": {"throughput": luck.uniform(0, 1e6), "utilisation": luck.random()},
        "queries": [{"query": KNOWN_QUERY, "sic_now": luck.random()}],
    }


def bad_heartbeat(luck: random.Random) -> Made:
    beat = good_heartbeat(luck)
    status: dict[str, Any] = {"id": "a@load", "query": "load", "fragment": "a"}
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("old-sequence", lambda: beat.update(seq=luck.randrange(KNOWN_SEQUENCE + 1))),
        ("forbidden", lambda: beat.update(site=luck.choice(["oslo", "Rome", "rome."]))),
        ("bad-message", lambda: beat.update(seq=2**53 - 1)),
        ("bad-message", lambda: beat.update(interval=luck.choice([0, -1, 3601, "2"]))),
        ("bad-message", lambda: beat.update(address=luck.choice(["ftp://x", "http://a b", ""]))),
        ("bad-message", lambda: beat["statistics"].update(utilisation=1.5)),
        ("bad-message", lambda: beat["statistics"].update(throughput=-1)),
        ("bad-message", lambda: beat["queries"][0].update(sic_now=luck.choice([-0.1, 1.1]))),
        ("bad-message", lambda: beat.update(fragments=[{**status, "trouble": "x" * 301}])),
        ("bad-message", lambda: beat.update(fragments=[status] * 1001)),
        ("bad-message", lambda: beat.update(sources={"../x": {"columns": "a INT"}})),
        ("bad-message", lambda: beat.update(sources={"x": {"columns": "a INT", "time": "a`b"}})),
        ("bad-json", lambda: beat["statistics"].update(latency_ms=luck.choice([NAN, INFINITY]))),
        ("too-large", lambda: beat.update(x="x" * 1_000_001)),
    ]
    reason, spoil = luck.choice(wrong)
    spoil()
    return reason, request("POST", "/sites", to_json(beat))


def bad_messages(count: int, seed: int) -> Iterator[Bad]:
    """Makes so many, the same ones for the same seed."""
    luck = random.Random(seed)
    for _ in range(count):
        maker = luck.choice(MAKERS)
        yield Bad(maker.__name__, *maker(luck))


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]
