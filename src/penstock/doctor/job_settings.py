"""What the doctor says of a job's file: settings of Spark that hurt, sources, triggers, limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.doctor.finding import Finding
from penstock.doctor.versions import connector, numbers
from penstock.jobs.model import QueryEntry, SourceEntry
from penstock.sql import Rewritten
from penstock.units import amount

SCALA = "2.13"
"""Of all Spark 4."""
READ_LIMITS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "maxFilesPerTrigger")
MOST_PARTITIONS_PER_CORE = 4
SHARE_OF_MEMORY = 0.8
"""More than this of what is free leaves nothing for the Python workers."""
PACKAGES, JARS = "spark.jars.packages", "spark.jars"
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
EXCLUDED = "spark.sql.optimizer.excludedRules"
FOLDING = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
SHORTEST_INTERVAL_SECONDS = 0.2


@dataclass(frozen=True)
class PlannedJob:
    """Holds what a job file, or the file of a site, says of what will run."""

    name: str
    """Of the file."""
    interval: float
    latency: float | None
    kept: bool
    """Whether it names a directory that survives a crash."""
    spark: Mapping[str, str]
    sources: Mapping[str, SourceEntry]
    queries: Mapping[str, QueryEntry]
    rewritten: Mapping[str, Rewritten]


def job_findings(
    job: PlannedJob, pyspark: str | None, cores: int, memory_bytes: int | None
) -> Iterator[Finding]:
    """Says what hurts in a job's file."""
    yield from _connectors(job, pyspark)
    yield from _spark(job, cores, memory_bytes)
    yield from _timing(job)
    for name, source in job.sources.items():
        yield from _source(f"{job.name}: sources.{name}", source)
    for name, query in job.queries.items():
        yield from _query(f"{job.name}: queries.{name}", query, job.rewritten.get(name), job)
    if not job.kept and not job.spark.get("spark.master", "local").startswith("local"):
        yield Finding(
            "bad",
            f"{job.name}: checkpoint",
            "is missing, and on a cluster executors keep the state of queries in it",
            "name a directory that all machines share, such as hdfs://namenode/penstock",
        )
    elif not job.kept:
        yield Finding(
            "note",
            f"{job.name}: checkpoint",
            "is missing, so that a job that is started again begins anew, and its ledger with it",
            "name a directory",
        )


def _connectors(job: PlannedJob, pyspark: str | None) -> Iterator[Finding]:
    packages = [text for text in job.spark.get(PACKAGES, "").split(",") if text.strip()]
    about = f"{job.name}: {PACKAGES}"
    for package in packages:
        parts = connector(package)
        if parts is None:
            yield Finding(
                "bad",
                about,
                f"{package!r} is no package of Maven",
                "write group:name_2.13:version",
            )
            continue
        name, scala, version = parts
        if scala != SCALA:
            yield Finding(
                "bad", about, f"{package} is for Scala {scala}", f"take the one for {SCALA}"
            )
        of_spark = name.startswith("org.apache.spark:") and pyspark is not None
        if of_spark and numbers(version) != numbers(str(pyspark)):
            yield Finding(
                "bad",
                about,
                f"{package} is not of this Spark, which is {pyspark}",
                f"write {name}_{SCALA}:{pyspark}",
            )
    formats = {source.format for source in job.sources.values()}
    formats |= {query.sink.format for query in job.queries.values()}
    if "kafka" in formats and "kafka" not in job.spark.get(JARS, "") + "".join(packages):
        wanted = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark or 'VERSION OF SPARK'}"
        yield Finding(
            "bad",
            about,
            "does not name Kafka's connector, which PySpark does not bring along",
            f"add {wanted}",
        )


def _spark(job: PlannedJob, cores: int, memory_bytes: int | None) -> Iterator[Finding]:
    master = job.spark.get("spark.master", "local")
    told = job.spark.get(PARTITIONS)
    local = master.startswith("local")
    stateful = any(query.aggregated for query in job.rewritten.values())
    if told is not None and told.isdigit() and stateful and local:
        most = MOST_PARTITIONS_PER_CORE * cores
        if int(told) > most:
            yield Finding(
                "note",
                f"{job.name}: {PARTITIONS}",
                f"{told} partitions on {cores} cores: each costs every batch a task and a file",
                f"set it to {cores}; a query that has a checkpoint keeps its number",
            )
    if told is None and stateful and not local:
        yield Finding(
            "note",
            f"{job.name}: {PARTITIONS}",
            "is not set: a job file has 2 of them unless told, which is few for a cluster",
            "set it to the cores of the cluster",
        )
    if FOLDING in job.spark.get(EXCLUDED, ""):
        yield Finding(
            "bad",
            f"{job.name}: {EXCLUDED}",
            "has ConstantFolding, by which a gate gets its plan",
            "take it out",
        )
    for name in ("spark.remote", "spark.api.mode"):
        if job.spark.get(name, "classic") != "classic":
            yield Finding(
                "bad",
                f"{job.name}: {name}",
                "makes a Connect client, and a job starts a Spark of its own",
                "take it out, and name spark.master",
            )
    yield from _memory(job, memory_bytes)


def _memory(job: PlannedJob, memory_bytes: int | None) -> Iterator[Finding]:
    told = job.spark.get("spark.driver.memory")
    if told is None or memory_bytes is None:
        return
    try:
        wanted = _bytes(told)
    except ValueError:
        return  # Spark says so when it starts
    if wanted > SHARE_OF_MEMORY * memory_bytes:
        yield Finding(
            "bad",
            f"{job.name}: spark.driver.memory",
            f"{told} of {memory_bytes / 2**30:.1f} GB that are free leaves too little for Python",
            f"give at most {int(SHARE_OF_MEMORY * memory_bytes / 2**20)}m",
        )


def _bytes(text: str) -> float:
    """Reads an amount of memory as Spark writes it.

    >>> _bytes("2g") == 2 * _bytes("1024m")
    True
    """
    units = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
    lowered = text.strip().lower().removesuffix("b")
    if lowered[-1:] in units:
        return float(lowered[:-1]) * units[lowered[-1]]
    return float(lowered)


def _timing(job: PlannedJob) -> Iterator[Finding]:
    if job.interval < SHORTEST_INTERVAL_SECONDS:
        yield Finding(
            "note",
            f"{job.name}: interval",
            f"{job.interval:g} s: Spark spends about a tenth of a second on a batch of nothing",
            f"{SHORTEST_INTERVAL_SECONDS:g}s or more leaves time for tuples",
        )
    if job.latency is not None and job.latency < 2 * job.interval:
        left = job.latency - job.interval
        yield Finding(
            "note",
            f"{job.name}: latency",
            f"{job.latency:g} s leaves a batch {left:g} s: a tuple waits for up to an interval",
            f"shorten the interval to {job.latency / 2:g}s, or give {2 * job.interval:g}s",
        )


def _source(about: str, source: SourceEntry) -> Iterator[Finding]:
    for limit in READ_LIMITS:
        told = next((v for k, v in source.options.items() if k.lower() == limit.lower()), None)
        if told is not None:
            yield Finding(
                "note",
                f"{about}.options.{limit}",
                f"a batch reads at most {_amount(told)}, and shedding cannot help with what waits",
                "leave it out, or set it to three times what arrives in an interval, or more",
            )
    if source.static or source.format in ("replay", "rate"):
        return
    if source.format not in ("kafka", "files", "parquet", "orc", "json", "csv", "text"):
        if source.arrival is None:
            yield Finding(
                "note",
                f"{about}.arrival",
                "is not given, so that latency is modelled and not measured",
                "name the column that says when a tuple arrived, if there is one",
            )
        if not source.id:
            yield Finding(
                "note",
                f"{about}.id",
                "is not given, so that tuples are told apart by all their columns",
                "name the columns that tell them apart",
            )


def _amount(text: str) -> str:
    try:
        return f"{amount(text):,.0f}"
    except ValueError:
        return text


def _query(
    about: str, query: QueryEntry, rewritten: Rewritten | None, job: PlannedJob
) -> Iterator[Finding]:
    if rewritten is None:
        return
    streams = [name for name in rewritten.sources if not job.sources[name].static]
    if len(streams) > 1:
        for name in streams:
            if job.sources[name].event_time is None:
                yield Finding(
                    "note",
                    about,
                    f"joins {name}, which has no watermark, so that Spark keeps all of its tuples",
                    f"name the event-time column: sources.{name}.time",
                )
    endless = rewritten.aggregated and not rewritten.windowed
    if endless and "rocksdb" not in job.spark.get(PROVIDER, "").lower():
        yield Finding(
            "note",
            about,
            "groups without a window: its state grows with every new group, in the driver's heap",
            f"group by a window, or set {PROVIDER} to Spark's RocksDBStateStoreProvider",
        )
    if query.mode == "complete" and query.sink.format not in ("console", "memory", "noop"):
        yield Finding(
            "note",
            f"{about}.mode",
            "complete writes the whole result in each batch",
            "use update or append where the sink can take it",
        )
