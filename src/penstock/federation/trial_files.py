"""Makes up a federation for trying out: the files of its sites, and of queries that span them.

Every site has machines that report their load, a query of its own, and more than it can do. The
three queries over all sites are of the kinds of THEMIS' table 1: an average over everything (as a
tree), the five busiest machines, and a covariance (as a chain).
"""

from collections.abc import Mapping, Sequence
from typing import Any

CITIES = (
    *("rome", "oslo", "kyoto", "lima", "cairo", "quito"),
    *("hanoi", "accra", "sofia", "dakar", "delhi", "turin"),
)
"""The names of the sites, in this order."""
RATES_PER_SECOND = (8_000, 4_000, 2_000)
"""Of the sites' machines, in turn: some sites are more overloaded than others."""
SUBMITTER = "submitter"
"""The name of whoever submits the queries."""
WORK = "length(sha2(repeat(string(value), 500), 512)) / 128"
"""Stands for the decoding of a real message: it costs a tuple some microseconds, and is 1."""
SPARK = {
    "spark.master": "local[1]",
    "spark.driver.memory": "600m",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:ReservedCodeCacheSize=160m",
}
"""Small enough for four sites on two cores. The quick compiler alone would have room for 48 MB of
code, which many queries fill; then the JVM compiles no more, and all is slow."""


def token_variable(name: str) -> str:
    """Names the variable of the environment that has the token of a site or a submitter."""
    return f"PENSTOCK_TOKEN_{name.upper()}"


def tokens_file(names: Sequence[str]) -> dict[str, str]:
    """Says who may call: all sites and the submitter."""
    return {name: f"${{{token_variable(name)}}}" for name in (*names, SUBMITTER)}


def site_file(
    name: str, names: Sequence[str], oracle: str, interval: str = "5s", latency: str = "15s"
) -> dict[str, Any]:
    """Returns the file of one of the sites."""
    number = names.index(name)
    accepts = tokens_file(names)
    return {
        "site": name,
        "oracle": oracle,
        "directory": name,
        "links": "links",
        "interval": interval,
        "latency": latency,
        "token": accepts[name],
        "accepts": accepts,
        "readers": True,
        "operators": [SUBMITTER],
        "sources": {"machines": _machines(name, number)},
        "queries": {f"{name}-own": _own_query()},
        "spark": dict(SPARK),
    }


def _machines(site: str, number: int) -> dict[str, Any]:
    """Describes a source that needs no process beside the JVM, so that many streams read it."""
    machine = "pmod(value, 20)"
    return {
        "format": "rate",
        "rate": RATES_PER_SECOND[number % len(RATES_PER_SECOND)],
        "arrival": "timestamp",
        "watermark": "0s",
        "id": "value",
        "columns": {
            "machine": f"concat('{site}-', {machine})",
            "cpu": f"({machine} * 2 + {_spread(number + 1)}) * {WORK}",
            "memory": f"{machine} + {_spread(number + 101)}",
        },
    }


def _spread(seed: int) -> str:
    """Returns SQL for what looks like chance, from 0 to 50, and is the same if it is read again."""
    return f"pmod(hash(value, {seed}), 1000) / 20"


def _own_query() -> dict[str, Any]:
    return {
        "sql": "SELECT window.start, machine, avg(cpu) AS cpu FROM machines\n"
        "GROUP BY window(timestamp, '5 seconds'), machine\n",
        "sink": {"format": "noop"},
    }


def query_files(names: Sequence[str]) -> Mapping[str, dict[str, Any]]:
    """Returns the queries over all sites, by the names of their files."""
    union = " UNION ALL ".join(f"{name}.machines" for name in names)
    return {
        "avg_all": _query(
            "avg-all",
            f"SELECT window.start, avg(cpu) AS cpu, count(*) AS n\nFROM {union}\n"
            "GROUP BY window(timestamp, '5 seconds')\n",
            bounds=True,
            place={"root": names[1]},
        ),
        "top5": _query(
            "top-5",
            f"SELECT window.start, max_by(machine, cpu, 5) AS machines\nFROM {union}\n"
            "GROUP BY window(timestamp, '5 seconds')\n",
        ),
        "cov": _query(
            "cov",
            f"SELECT window.start, covar_pop(cpu, memory) AS covariance\nFROM {union}\n"
            "GROUP BY window(timestamp, '5 seconds')\n",
            shape="chain",
        ),
    }


def _query(name: str, sql: str, **more: Any) -> dict[str, Any]:
    return {
        "query": name,
        "sql": sql,
        "watermark": "15s",
        **more,
        "sink": {"format": "parquet", "path": f"out/{name}"},
    }
