"""Writes a stream of JSON messages to Kafka at a given rate, as a neighbour of the job.

A message has a route, a value, an event time and a note. Texts are made before the first is sent,
so that the producer costs little of the machine that it shares. Messages go out in small steps;
Kafka's ``timestamp`` is when one went out. The producer tells how much of a core it took.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from penstock.lab.field.child import Child, Lines, told_to_end

STEP_SECONDS = 0.02
RING_SIZE = 1 << 17
"""How many messages are made beforehand; then they come again, with another event time."""
SPREADS = {"uniform": 0.0, "zipf": 1.0, "power law": 1.4}
"""For each distribution of keys the exponent: the key of rank n has a share like 1/n to the power.

With 1.4 and 600 keys, the first has a third of the stream, and the last one in 23,000.
"""
NOTE = "calibrated at the site {site:03d}, batch {batch:09d} of the autumn series"
LONGEST_FLUSH_SECONDS = 30.0


@dataclass(frozen=True)
class Traffic:
    """Says what is written: where to, how much a second from when on, and about what keys."""

    address: str
    topic: str
    rates: Sequence[tuple[float, float]]
    """Pairs of a second since the start and the messages a second from then on."""
    seconds: float | None = None
    """When it ends by itself; else when it is told to."""
    keys: int = 20
    spread: str = "uniform"
    partitions: int = 2
    seed: int = 0
    lines: str = ""

    def due(self, second: float) -> float:
        """Returns how many messages are due by a second since the start."""
        ends = [*(at for at, _ in self.rates[1:]), float("inf")]
        spans = zip(self.rates, ends, strict=True)
        return sum(rate * max(min(second, end) - at, 0.0) for (at, rate), end in spans)


def shares(keys: int, spread: str) -> Any:
    """Returns each key's share of the stream, the largest first.

    >>> [round(float(share), 3) for share in shares(600, "power law")[[0, 1, 599]]]
    [0.343, 0.13, 0.0]
    """
    sizes = np.arange(1, keys + 1) ** -SPREADS[spread]
    return sizes / sizes.sum()


def ring_of(traffic: Traffic) -> list[tuple[bytes, bytes, bytes]]:
    """Returns key, text before and text after the event time, of the messages in their order.

    Each key has its share of them as exactly as whole numbers can, and one at least.
    """
    luck = np.random.default_rng(traffic.seed)
    counts = np.maximum(np.round(RING_SIZE * shares(traffic.keys, traffic.spread)), 1).astype(int)
    owners = luck.permutation(np.repeat(np.arange(traffic.keys), counts))
    values = luck.normal(20.0 + owners % 7, 4.0)
    ring = []
    for place, (owner, value) in enumerate(zip(owners.tolist(), values.tolist(), strict=True)):
        route, note = f"r{owner:05d}", NOTE.format(site=owner % 1000, batch=place)
        head = f'{{"route":"{route}","value":{value:.4f},"at":"'
        ring.append((route.encode(), head.encode(), f'","note":"{note}"}}'.encode()))
    return ring


class Pump:
    """Sends what is due, a slice of the ring to each partition in turn."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic, self._ring = traffic, ring_of(traffic)
        self.sent = 0
        self._client = Producer(
            {
                "bootstrap.servers": traffic.address,
                "log_level": 0,
                "linger.ms": 5,
                "acks": 1,
                "queue.buffering.max.messages": 5_000_000,
                "queue.buffering.max.kbytes": 2_000_000,
            }
        )

    def send(self, count: int) -> None:
        """Sends so many messages, each stamped with the present moment."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").encode()
        cuts = np.linspace(0, count, self._traffic.partitions + 1).astype(int)
        for partition, (first, stop) in enumerate(pairwise(cuts.tolist())):
            if stop > first:
                batch = [
                    {"key": key, "value": head + now + tail}
                    for key, head, tail in self._slice(self.sent + first, stop - first)
                ]
                self._client.produce_batch(self._traffic.topic, batch, partition=partition)
        self.sent += count
        self._client.poll(0)

    def _slice(self, place: int, count: int) -> list[tuple[bytes, bytes, bytes]]:
        place %= len(self._ring)
        found = self._ring[place : place + count]
        while len(found) < count:
            found += self._ring[: count - len(found)]
        return found

    def flush(self) -> int:
        """Waits until everything has been delivered, and returns how much was not."""
        return self._client.flush(LONGEST_FLUSH_SECONDS)


def main(traffic: Traffic) -> None:
    """Sends until the time is up or it is told to end, and tells what that cost."""
    lines, pump = Lines(traffic.lines), Pump(traffic)
    start, used = time.monotonic(), time.process_time()
    lines.tell("started")
    for step in range(1, sys.maxsize):
        now = time.monotonic() - start
        if traffic.seconds is not None and now >= traffic.seconds:
            break
        pump.send(int(traffic.due(now)) - pump.sent)
        if told_to_end(start + step * STEP_SECONDS - time.monotonic()):
            break
    took = time.monotonic() - start
    share = (time.process_time() - used) / took
    lines.tell("ended", sent=pump.sent, seconds=took, cpu_share=share, lost=pump.flush())


class Feed(Child):
    """Is a producer in a process of its own, which has begun to send when this is made."""

    def __init__(self, traffic: Traffic, folder: Path, name: str = "producer") -> None:
        super().__init__("penstock.lab.field.producer", asdict(traffic), folder, name)
        self.wait_for(lambda: self.told("started"), 60, "its start")

    @property
    def started(self) -> float:
        """Returns when it began to send, in seconds since the epoch."""
        return float(self.told("started")[0]["at"])

    def end(self) -> dict[str, float]:
        """Tells it to end, and returns what it sent, how long it took and what share of a core."""
        self.stop()
        return dict(self.told("ended")[-1])


if __name__ == "__main__":
    main(Traffic(**json.loads(sys.argv[1])))
