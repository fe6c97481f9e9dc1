"""Carries rows between fragments over Kafka, one topic for each link.

Spark's Kafka sink writes at least once: a batch that runs again after a crash is there twice. So
each row says which batch of which checkpoint it is of, and its number there, and the reader drops
what it has seen within its watermark. Rows are JSON, so that a topic can be looked at.
"""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import PenstockError
from penstock.federation.link import KEPT_SECONDS, LinkName

SENT_BATCH, SENT_ROW = "_sent_batch", "_sent_row"
IDENTITY = (SENT_BATCH, SENT_ROW)
"""The columns that tell a row from all others, and are the same when its batch runs again."""
FORMATS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
LONGEST_ANSWER_SECONDS = 30.0


class KafkaLinks:
    """Is links that are topics of one Kafka cluster."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers

    def writer(self, names: Sequence[LinkName], sender: str, checkpoint: str) -> "TopicWriter":
        """Returns what writes into all of these topics, which it makes."""
        topics = [topic_of(name) for name in names]
        _make(self._brokers, topics)
        return TopicWriter(self._brokers, topics, f"{sender}+{checkpoint}")

    def read(self, spark: SparkSession, name: LinkName, columns: str) -> DataFrame:
        """Streams the rows of a topic from its beginning."""
        topic = topic_of(name)
        _make(self._brokers, [topic])
        schema = f"{columns}, {SENT_BATCH} STRING, {SENT_ROW} BIGINT"
        messages = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._brokers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        row = sf.from_json(sf.col("value").cast("string"), schema, FORMATS)
        return messages.select(row.alias("row")).select("row.*")

    def once(self, rows: DataFrame) -> DataFrame:
        """Drops rows of batches that were sent again."""
        return rows.dropDuplicatesWithinWatermark(list(IDENTITY)).drop(*IDENTITY)


class TopicWriter:
    """Writes a sender's rows into topics."""

    def __init__(self, brokers: str, topics: Sequence[str], sender: str) -> None:
        self._brokers, self._topics, self._sender = brokers, topics, sender

    def check(self) -> None:
        """Checks nothing: Spark asks the brokers again and again, and its own error says more."""

    def write(self, rows: DataFrame, batch: int) -> int:
        """Writes the rows of a batch, and returns how many these are."""
        numbered = (
            rows.repartition(1)
            .sortWithinPartitions(*rows.columns)  # so that a row has its number again
            .withColumn(SENT_BATCH, sf.lit(f"{self._sender}-{batch}"))
            .withColumn(SENT_ROW, sf.monotonically_increasing_id())
        ).persist()  # or the gate would count each tuple with every topic
        try:
            count = numbered.count()
            for topic in self._topics if count else ():
                self._send(numbered, topic)
        finally:
            numbered.unpersist()
        return count

    def _send(self, rows: DataFrame, topic: str) -> None:
        message = sf.to_json(sf.struct("*"), FORMATS)
        (
            rows.select(sf.lit(self._sender).alias("key"), message.alias("value"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._brokers)
            .option("topic", topic)
            .save()
        )


def topic_of(name: LinkName) -> str:
    """Names the topic of a link.

    >>> topic_of(LinkName("load", "root", "links"))
    'penstock.load.root.links.0'
    """
    return f"penstock.{name.query}.{name.receiver}.{name.relation}.{name.replica}"


def _make(brokers: str, topics: Sequence[str]) -> None:
    """Makes topics that are not there; they forget as links in directories do."""
    try:
        admin_module: Any = import_module("confluent_kafka.admin")
    except ModuleNotFoundError:
        raise PenstockError(
            "links over Kafka need a client: pip install 'penstock[kafka]'"
        ) from None
    admin = admin_module.AdminClient({"bootstrap.servers": brokers})
    kept = {"retention.ms": str(round(KEPT_SECONDS * 1000))}
    new = [admin_module.NewTopic(t, num_partitions=1, config=kept) for t in topics]
    for made in admin.create_topics(new).values():
        with suppress(Exception):  # it is there already, or the reader's own error says more
            made.result(LONGEST_ANSWER_SECONDS)
