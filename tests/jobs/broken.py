"""Job files with one mistake each, and the message that it gets.

A case changes one text of a good job (``GOOD``); ``spark`` marks what only Spark can find.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD = """\
site: rome
interval: 1s
latency: 2s
policy: balance-sic
sources:
  rides:
    format: replay
    generator: rides
    rate: 2k
    profile: [{at: 0s, factor: 1}, {at: 20s, factor: 5}]
  trips:
    format: parquet
    path: trips
    schema: at TIMESTAMP, route STRING, fare DOUBLE
    time: at
    watermark: 10s
queries:
  fares:
    strata: route
    floor: 0.1
    bounds: true
    sql: |
      SELECT window.start, route,
        avg(fare) AS fare
      FROM rides
      GROUP BY window(_arrival, '10 seconds'), route
    sink: {format: noop}
  trips:
    sql: SELECT count(*) AS trips FROM trips[Range 1 min]
    sink:
      format: parquet
      path: out/trips
"""


@dataclass(frozen=True)
class Broken:
    """``message`` follows the name of the file; ``{dir}`` is the file's directory."""

    what: str
    old: str
    new: str
    message: str
    spark: bool = False
    also: tuple[str, str] = ("", "")

    @property
    def text(self) -> str:
        changed = GOOD.replace(self.old, self.new, 1)
        return changed.replace(*self.also) if self.also[0] else changed


BROKEN = [
    Broken("empty", GOOD, "", ": the file is empty"),
    Broken("a list", GOOD, "- a\n", ":1: expected keys such as 'sources' and 'queries'"),
    Broken(
        "not YAML",
        "policy: balance-sic",
        "policy: [balance-sic",
        ":5: this is not YAML: expected ',' or ']', but got ':'",
    ),
    Broken(
        "a tab",
        "  rides:\n",
        "\trides:\n",
        ":6: this is not YAML: found character '\\t' that cannot start any token",
    ),
    Broken(
        "a latency that cannot be",
        "latency: 2s",
        "latency: 500ms",
        ":3: latency: 0.5 s cannot be held: a tuple waits for up to an interval, 1 s; give two of "
        "them, or shorten the interval",
    ),
    Broken(
        "a checkpoint without a place for the ledger",
        "latency: 2s",
        "checkpoint: s3a://bucket/fares",
        ":3: checkpoint: needs 'directory' beside it, such as directory: state, since the ledger "
        "is written to the driver's disk",
    ),
    Broken(
        "a ledger that is not on a disk",
        "latency: 2s",
        "directory: s3a://bucket/fares",
        ":3: directory: must be on the driver's disk, such as 'state'",
    ),
    Broken("a key twice", "latency: 2s", "interval: 2s", ":3: interval: this key is given twice"),
    Broken(
        "unknown key", "latency:", "latncy:", ":3: latncy: unknown key; did you mean 'latency'?"
    ),
    Broken(
        "unknown key of a source",
        "    rate: 2k",
        "    rat: 2k",
        ":9: sources.rides.rat: unknown key; did you mean 'rate'?",
    ),
    Broken(
        "unknown key of a query",
        "    floor: 0.1",
        "    flor: 0.1",
        ":20: queries.fares.flor: unknown key; did you mean 'floor'?",
    ),
    Broken(
        "a concept's windows do not fit",
        "    floor: 0.1",
        "    concept: {window: 10s, slide: 3s}",
        ":20: queries.fares.concept: window must be a multiple of slide, such as '10m' of '5m'; "
        "got '10s' and '3s'",
    ),
    Broken(
        "a concept's column",
        "    floor: 0.1",
        "    concept: {window: 10s, error: 5%, value: fahrt}",
        ":20: queries.fares.concept: value must be a number or a time of the stream; got 'fahrt': "
        "unknown column 'fahrt'; "
        "did you mean 'fare'?",
        spark=True,
    ),
    Broken(
        "unknown key in a list",
        "factor: 5",
        "times: 5",
        ":10: sources.rides.profile[1].times: unknown key; there are at, factor",
    ),
    Broken(
        "no queries",
        "queries:",
        "spark: {}\nqueries: {}\nx:",
        ":19: x: unknown key; there are site, interval, latency, stw, policy, headroom, "
        "watch, checkpoint, directory, settle_within, spark, sources, queries",
    ),
    Broken(
        "no sources",
        GOOD[: GOOD.index("queries:")],
        "sources: {}\n",
        ":1: sources: expected at least one, found none",
    ),
    Broken(
        "no SQL",
        "    sql: SELECT count(*) AS trips FROM trips[Range 1 min]\n",
        "",
        ":28: queries.trips: 'sql' is missing",
    ),
    Broken(
        "a duration",
        "interval: 1s",
        "interval: quickly",
        ":2: interval: must be a duration, such as '1 second' or '500ms'; got 'quickly'",
    ),
    Broken(
        "a duration of 0",
        "interval: 1s",
        "interval: 0s",
        ":2: interval: expected a duration longer than 0, such as '1s' or '500ms'",
    ),
    Broken(
        "an amount",
        "rate: 2k",
        "rate: plenty",
        ":9: sources.rides.rate: must be an amount, such as 2000, '200k' or '1.5M'; got 'plenty'",
    ),
    Broken(
        "a share",
        "floor: 0.1",
        "floor: 3",
        ":20: queries.fares.floor: expected a number less than or equal to 1, found '3'",
    ),
    Broken(
        "a number",
        "floor: 0.1",
        "floor: low",
        ":20: queries.fares.floor: expected a number, found 'low'",
    ),
    Broken(
        "a confidence",
        "bounds: true",
        "bounds: 95",
        ":21: queries.fares.bounds: expected true, false or a confidence such as 0.95",
    ),
    Broken(
        "a text for a mapping",
        "sink: {format: noop}",
        "sink: noop",
        ":27: queries.fares.sink: expected keys with values, found 'noop'",
    ),
    Broken(
        "strata of the wrong type",
        "strata: route",
        "strata: 5",
        ":19: queries.fares.strata: expected a column, a list of columns, or one of both "
        "for each source",
    ),
    Broken(
        "unknown policy",
        "balance-sic",
        "balanced-sic",
        ":4: policy: unknown policy 'balanced-sic': did you mean 'balance-sic'?",
    ),
    Broken(
        "a mode",
        "    floor: 0.1",
        "    mode: replace",
        ":20: queries.fares.mode: expected 'append', 'update' or 'complete', found 'replace'",
    ),
    Broken(
        "a secret that is not there",
        "path: trips",
        "path: ${PENSTOCK_TEST_NOWHERE}",
        ":13: sources.trips.path: the environment has no variable PENSTOCK_TEST_NOWHERE",
    ),
    Broken(
        "an option of another format",
        "    time: at",
        "    loop: true",
        ":11: sources.trips: 'loop' is for format: replay; others take 'options'",
    ),
    Broken(
        "a watermark without time",
        "    time: at\n",
        "",
        ":11: sources.trips: 'watermark' needs 'time', the event-time column",
    ),
    Broken(
        "SQL that does not parse",
        "avg(fare) AS fare",
        "avg(fare AS fare",
        ":25: queries.fares.sql: this is not SQL: expecting ) near 'FROM'",
    ),
    Broken(
        "no SELECT",
        "SELECT count(*) AS trips FROM trips[Range 1 min]",
        "DROP TABLE trips",
        ":29: queries.trips.sql: expected a SELECT, found DROP",
    ),
    Broken(
        "unknown table",
        "FROM rides",
        "FROM rifes",
        ":22: queries.fares.sql: unknown table 'rifes': did you mean 'rides'?",
    ),
    Broken(
        "a window over a column without watermark",
        "window(_arrival,",
        "window(started,",
        ":22: queries.fares.sql: window(started, '10 seconds'): the column 'started' has no "
        "watermark; the event time is _arrival",
    ),
    Broken(
        "a window over a source without time",
        "    time: at\n    watermark: 10s\n",
        "",
        ":27: queries.trips.sql: trips[Range ...]: the source has no event time; give it 'time', "
        "the column",
    ),
    Broken(
        "an aggregate without a window",
        "[Range 1 min]",
        "",
        ":29: queries.trips.sql: an aggregate without a window never ends: "
        "GROUP BY window(time, '1 minute'), or say mode: complete",
    ),
    Broken(
        "SQL that shedding would bias",
        "avg(fare)",
        "skewness(fare)",
        ":22: queries.fares.sql: skewness: has no weighted form, so that shedding would bias it",
    ),
    Broken(
        "unknown column",
        "avg(fare)",
        "avg(fair)",
        ":24: queries.fares.sql: unknown column 'fair'; did you mean 'fare'?",
        spark=True,
    ),
    Broken(
        "no strata",
        "strata: route",
        "strata: []",
        ":19: queries.fares.strata: expected a column, a list of columns, or one of both for each "
        "source",
    ),
    Broken(
        "SQL that the parser chokes on",
        "FROM trips[Range 1 min]",
        "FROM trips |> LIMIT 1",
        ":29: queries.trips.sql: this SQL is beyond the parser: write it as a plain SELECT",
    ),
    Broken(
        "a checkpoint in a file",
        "site: rome",
        "site: rome\ncheckpoint: job.yaml",
        ":2: checkpoint: {dir}/job.yaml is a file, not a directory",
        spark=True,
    ),
    Broken(
        "unknown stratum",
        "strata: route",
        "strata: rout",
        ":19: queries.fares.strata: no source of the query has 'rout'; did you mean 'route'?",
        spark=True,
    ),
    Broken(
        "a type that does not fit",
        "avg(fare)",
        "avg(array(fare))",
        ':22: queries.fares.sql: Cannot resolve "avg(array(fare))" due to data type mismatch: '
        'The first parameter requires the "NUMERIC" or "ANSI INTERVAL" type, however '
        '"array(fare)" has the type "ARRAY<DOUBLE>".',
        spark=True,
    ),
    Broken(
        "missing files",
        "path: trips",
        "path: tripps",
        ":11: sources.trips: there is no '{dir}/tripps'",
        spark=True,
    ),
    Broken(
        "a time that is no column",
        "time: at",
        "time: ta",
        ":15: sources.trips.time: no column 'ta': there are at, route, fare",
        spark=True,
    ),
    Broken(
        "a time that is no timestamp",
        "time: at",
        "time: fare",
        ":15: sources.trips.time: the column 'fare' is no timestamp; compute one under "
        "'columns', such as timestamp_seconds(x)",
        spark=True,
    ),
    Broken(
        "an arrival that is no column",
        "    time: at",
        "    arrival: ta\n    time: at",
        ":15: sources.trips.arrival: no column 'ta' before the gate: there are at, route, fare",
        spark=True,
    ),
    Broken(
        "an arrival that is no timestamp",
        "    time: at",
        "    arrival: fare\n    time: at",
        ":15: sources.trips.arrival: 'fare' is no timestamp; write an expression that is one, "
        "such as timestamp_millis(x)",
        spark=True,
    ),
    Broken(
        "an arrival of a table",
        "    time: at",
        "    static: true\n    arrival: at\n    time: at",
        ":11: sources.trips: 'arrival' is for streams; a table that is 'static' has none",
    ),
    Broken(
        "unknown generator",
        "generator: rides",
        "generator: ridez",
        ":6: sources.rides: option 'generator' must be one of readings, keyed, measurements, "
        "rides, or a callable of your own, such as 'package.module:callable'; got 'ridez'",
        spark=True,
    ),
    Broken(
        "unknown format of a source",
        "format: parquet\n    path: trips",
        "format: parket\n    path: trips",
        ":12: sources.trips.format: Spark knows no format 'parket'; is its package in "
        "spark.jars.packages?",
        spark=True,
    ),
    Broken(
        "unknown format of a sink",
        "{format: noop}",
        "{format: nope}",
        ":27: queries.fares.sink.format: Spark knows no format 'nope'; is its package in "
        "spark.jars.packages?",
        spark=True,
    ),
    Broken(
        "a sink that cannot be written",
        "path: out/trips",
        "path: file.txt/trips",
        ":32: queries.trips.sink.path: cannot write into {dir}/file.txt",
        spark=True,
    ),
    Broken(
        "a sink that is a file",
        "path: out/trips",
        "path: file.txt",
        ":32: queries.trips.sink.path: {dir}/file.txt is a file, not a directory",
        spark=True,
    ),
    Broken(
        "a sink without path",
        "      path: out/trips\n",
        "",
        ":30: queries.trips.sink: 'path' is missing",
        spark=True,
    ),
    Broken(
        "a name that a memory sink cannot have",
        "  fares:",
        "  all-fares:",
        ":27: queries.all-fares.sink.format: the memory sink makes a table of the query's name, "
        "and 'all-fares' cannot be one",
        spark=True,
        also=("{format: noop}", "{format: memory}"),
    ),
]
