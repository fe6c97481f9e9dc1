"""The producer: as many messages as are due, by keys of the sizes that were asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.lab.field.broker import Broker
from penstock.lab.field.producer import RING_SIZE, Traffic, ring_of
from penstock.lab.field.stand import Stand


def test_what_is_due_follows_the_schedule() -> None:
    traffic = Traffic("", "", ((0.0, 100.0), (10.0, 0.0), (20.0, 50.0)))
    assert [traffic.due(second) for second in (0, 5, 10, 15, 22)] == [0, 500, 1000, 1000, 1100]


def test_tenants_have_their_sizes_and_none_is_missing() -> None:
    traffic = Traffic("", "", ((0.0, 1.0),), keys=600, spread="power law")
    sizes = Counter(key for key, _, _ in ring_of(traffic))
    assert len(sizes) == 600
    assert sizes[b"r00000"] / RING_SIZE == pytest.approx(1 / 3, abs=0.03)
    assert 30_000 * sizes[b"r00599"] / RING_SIZE == pytest.approx(1.4, abs=0.2)
    assert ring_of(traffic) == ring_of(traffic)


def test_messages_arrive_at_the_rate_whole_and_in_every_partition(
    broker: Broker, tmp_path: Path
) -> None:
    stand = Stand(broker, tmp_path)
    topic = stand.topic()
    with stand.feed(topic, (0.0, 5000.0), seconds=2.0) as feed:
        feed.wait_for(lambda: feed.told("ended"), 30, "its end")
        told = feed.end()
    assert told["lost"] == 0
    assert told["sent"] == pytest.approx(10_000, rel=0.05)
    ends = broker.ends(topic)
    assert sum(ends.values()) == told["sent"]
    assert ends[0] == pytest.approx(ends[1], rel=0.02)
    reader = Consumer({**broker.client, "group.id": "test"})
    reader.assign([TopicPartition(topic, 0, 0)])
    found = reader.poll(30)
    reader.close()
    assert found is not None
    text, key = found.value(), found.key()
    assert text is not None
    assert key is not None
    message = json.loads(text)
    assert message.keys() == {"route", "value", "at", "note"}
    assert message["route"] == key.decode()
    assert abs(found.timestamp()[1] / 1000 - feed.started) < 2
