"""Settling on Kafka: killed and gone on with, and a topic that has forgotten a stretch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from penstock import settled
from penstock.lab.field.broker import Broker
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.past_batches import recall_past
from tests.settle.shed_job import (
    BATCHES,
    BEGIN,
    QUERY,
    SHEDDING,
    Sheds,
    counted,
    rows_of,
    run_job,
    settle_job,
    written_job,
)

DIES = """\
import os, signal, sys
from penstock.cli.main import main
from penstock.settle import settled_rows, settling
settling.TUPLES_AT_ONCE = 1
commit, done = settled_rows.WholeFolders.commit, []
def dying(*given):
    if len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(commit(*given))
settled_rows.WholeFolders.commit = dying
sys.exit(main(sys.argv[1:]))
"""
"""The command, which is killed when it has settled two windows and has written the next."""


KAFKA_QUERY = QUERY.replace("strata: route", "strata: get_json_object(string(value), '$.route')")


def source(broker: Broker, topic: str, at_once: int = 400) -> str:
    return f"""\
  rides:
    format: kafka
    time: at
    watermark: 4s
    options:
      kafka.bootstrap.servers: "{broker.address}"
      subscribe: {topic}
      startingOffsets: earliest
      maxOffsetsPerTrigger: {at_once}
    columns:
      at: timestamp_micros(bigint(get_json_object(string(value), '$.at')))
      ride: from_json(string(value), 'route STRING, fare DOUBLE')
"""


@contextmanager
def kafka_in(spark: SparkSession, broker: Broker) -> Iterator[None]:
    """The session that tests share has Kafka's connector from now on."""
    for jar in broker.jars.connector.split(","):
        spark.sql(f"ADD JAR '{jar}'")
    yield


def produce(broker: Broker, topic: str, rows: dict[str, list[Any]], partition: int) -> None:
    producer = Producer(broker.client)
    for at, route, quarters in zip(*rows.values(), strict=True):
        value = json.dumps({"at": at, "route": route, "fare": quarters / 4})
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(60) == 0


def fill(broker: Broker, topic: str) -> None:
    """Makes a topic of all rows."""
    broker.create(topic, partitions=2)
    for batch in range(BATCHES):
        rows = rows_of(batch)
        for partition in range(2):
            part = {name: values[partition::2] for name, values in rows.items()}
            produce(broker, topic, part, partition)


def end(broker: Broker, topic: str) -> None:
    """A message from far ahead ends all windows."""
    last: dict[str, list[Any]] = {
        "at": [(BEGIN + 600) * 1_000_000],
        "route": ["end"],
        "quarters": [4],
    }
    produce(broker, topic, last, 0)


def test_a_stretch_of_kafka_is_settled_over_a_kill_and_named_where_it_is_gone(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with kafka_in(spark, broker):
        head = f'spark: {{spark.jars: "{broker.jars.connector}"}}\n'
        job = written_job(tmp_path / "shed", source(broker, "settle_shed"), KAFKA_QUERY, head)
        fill(broker, "settle_shed")
        run_job(spark, job, Sheds)
        end(broker, "settle_shed")
        run_job(spark, job)
        at_once = source(broker, "settle_shed", at_once=100_000)
        other = written_job(tmp_path / "whole", at_once, KAFKA_QUERY)
        run_job(spark, other)
        whole = counted(spark.read.parquet(str(tmp_path / "whole" / "out")))
        out = tmp_path / "shed" / "out"
        assert counted(spark.read.parquet(str(out))) != whole

        killed = subprocess.run(
            [sys.executable, "-c", DIES, "settle", str(job)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr[-3000:]
        assert len(list((out / "_settled").glob("windows-*"))) == 2
        assert (out / "_settled" / "_staging").exists()
        report = settle_job(spark, job)
        assert report["windows"]["settled_now"] == report["windows"]["settled"] - 2 > 0
        assert (report["lost"], report["out_of_time"]) == ([], False)
        assert counted(settled(spark, str(out))) == whole

        # now the topic forgets: all of a batch that shed, and half of another
        (folder,) = (tmp_path / "shed" / "state" / "site" / "past").iterdir()
        past = recall_past(folder.parent.parent, folder.name)
        half = past[SHEDDING[1]].offsets[0]
        until = {
            number: (half[0]["settle_shed"][number] + half[1]["settle_shed"][number]) // 2
            for number in ("0", "1")
        }
        forget(broker, "settle_shed", until)
        again = str(tmp_path / "again")
        for survey in ("as it was", "anew"):
            report = settle_job(spark, job, into=again)
            assert_told(report, folder)
            rows = counted(spark.read.parquet(f"{again}/fares/*"))
            assert rows <= whole, survey
            assert report["windows"]["settled"] > 0 < report["windows"]["lost"]
            for file in (folder.parent.parent / "settle").iterdir():
                file.unlink()


def forget(broker: Broker, topic: str, until: dict[str, int]) -> None:
    """Has the broker delete the messages before some offsets."""
    admin = AdminClient(broker.client)
    wanted = [TopicPartition(topic, int(number), offset) for number, offset in until.items()]
    for done in admin.delete_records(wanted).values():
        done.result(60)


def assert_told(report: dict[str, Any], folder: Path) -> None:
    """What is lost is named, to the tuple."""
    entries = {e.batch: e for e in Ledger(folder.parent.parent / "ledger.jsonl")}
    (gone,) = [lost for lost in report["lost"] if lost["batches"][1] == SHEDDING[0]]
    first, last = gone["batches"]
    mine = [entries[batch] for batch in range(first, last + 1)]
    assert gone["arrived"] == sum(entry.arrived for entry in mine)
    assert gone["shed"] == sum(entry.shed for entry in mine) > 100
    assert gone["why"] == "the source has none of its 400 tuples now"
    assert gone["until"]
    (second,) = [lost for lost in report["lost"] if lost["batches"][0] == SHEDDING[1]]
    assert second["why"] == "the source has only 200 of its 400 tuples now"
