"""A Kafka broker of one's own: on free ports of the loopback, with a folder that goes with it."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.errors import PenstockError
from penstock.lab.field.child import dies_with_us
from penstock.lab.field.jars import Jars, fetched

LONGEST_START_SECONDS = 90.0
LONGEST_ANSWER_SECONDS = 30.0
LONGEST_STOP_SECONDS = 15.0
PORTS = range(20_000, 32_000)
"""Below those that the system gives to clients, so that none takes ours while we are down."""
PORTS_TRIED = 3
JAVA_OPTIONS = (
    "-Xms128m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
LOG_CHARACTERS_SHOWN = 2000
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
num.network.threads=2
num.io.threads=4
"""


class Broker:
    """Is a running broker, and removes all that it wrote when it stops.

    It is started when it is made. ``kill`` and ``restart`` make an outage: the broker comes back on
    the same port with the same data.
    """

    def __init__(self) -> None:
        self._jars = fetched()
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        self._cluster = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._begin()
        except BaseException:
            self.stop()
            raise

    def _begin(self) -> None:
        """Takes other ports where somebody else has taken ours since they were found free."""
        for left in reversed(range(PORTS_TRIED)):
            self._port, controller = _free_ports()
            text = PROPERTIES.format(port=self._port, controller=controller, folder=self._folder)
            self._properties.write_text(text)
            shutil.rmtree(self._folder / "data", ignore_errors=True)
            self._format()
            try:
                return self.restart()
            except PenstockError as error:
                if not left or "Address already in use" not in str(error):
                    raise
        raise AssertionError

    @property
    def address(self) -> str:
        """Returns what clients connect to."""
        return f"127.0.0.1:{self._port}"

    @property
    def client(self) -> dict[str, str | int | float | bool]:
        """Returns the settings of a client of this broker that says nothing by itself."""
        return {"bootstrap.servers": self.address, "log_level": 0}

    @property
    def jars(self) -> Jars:
        """Returns where the broker's jars and the connector's are."""
        return self._jars

    @property
    def process(self) -> int | None:
        """Returns the id of the broker's process, or None while it is down."""
        return None if self._process is None else self._process.pid

    def create(self, topic: str, partitions: int = 2) -> None:
        """Makes a topic, and waits until it can be written to."""
        admin = self._admin()
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LONGEST_ANSWER_SECONDS)
        deadline = time.monotonic() + LONGEST_ANSWER_SECONDS
        while not self._has_leaders(admin, topic, partitions):
            if time.monotonic() > deadline:
                raise PenstockError(f"the broker at {self.address} has no leader for {topic}")
            time.sleep(0.02)

    def _has_leaders(self, admin: AdminClient, topic: str, partitions: int) -> bool:
        told = admin.list_topics(topic, timeout=LONGEST_ANSWER_SECONDS).topics[topic].partitions
        return len(told) == partitions and all(each.leader >= 0 for each in told.values())

    def ends(self, topic: str) -> dict[int, int]:
        """Returns for each partition of a topic how many messages were ever written to it."""
        known = self._admin().list_topics(topic, timeout=LONGEST_ANSWER_SECONDS).topics[topic]
        asker = Consumer({**self.client, "group.id": "ends"})
        try:
            return {
                number: asker.get_watermark_offsets(
                    TopicPartition(topic, number), timeout=LONGEST_ANSWER_SECONDS
                )[1]
                for number in known.partitions
            }
        finally:
            asker.close()

    def kill(self) -> None:
        """Ends the broker as a power cut does; its data stay."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Starts the broker on its port and its data, and waits until it answers."""
        assert self._process is None, "it is running"
        self._process = self._run("kafka.Kafka", str(self._properties))
        deadline = time.monotonic() + LONGEST_START_SECONDS
        while not self._answers():
            code = self._process.poll()
            if code is not None:
                self._process = None
                raise PenstockError(f"the Kafka broker ended with code {code}: {self._said()}")
            if time.monotonic() > deadline:
                self.kill()
                raise PenstockError(
                    f"the Kafka broker on port {self._port} did not answer within "
                    f"{LONGEST_START_SECONDS:.0f} s: {self._said()}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the broker and removes its folder."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- the process ------------------------------------------------------------------------------

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "broker.log"

    def _run(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [*dies_with_us(), _java(), *JAVA_OPTIONS, "-cp", self._jars.broker, main]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*command, *arguments], cwd=self._folder, stdout=log, stderr=log
            )

    def _format(self) -> None:
        properties = str(self._properties)
        tool = self._run("kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", properties)
        try:
            code = tool.wait(LONGEST_START_SECONDS)
        except subprocess.TimeoutExpired:
            tool.kill()
            code = tool.wait()
        if code != 0:
            raise PenstockError(f"Kafka cannot format {self._folder}: {self._said()}")

    def _answers(self) -> bool:
        """Says whether what listens on the port is this broker, by its cluster, and is ready."""
        try:
            told = self._admin().list_topics(timeout=1.0)
        except KafkaException:
            return False
        return str(told.cluster_id) == self._cluster and bool(told.brokers)

    def _admin(self) -> AdminClient:
        return AdminClient(self.client)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(LONGEST_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _said(self) -> str:
        """Returns the end of the log, and keeps all of it, since the folder is removed."""
        kept = self._folder.with_suffix(".log")
        shutil.copy(self._log, kept)
        return f"its log is kept in {kept}, and ends:\n{kept.read_text()[-LOG_CHARACTERS_SHOWN:]}"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise PenstockError("Kafka needs Java 17 or newer, and there is none on the PATH")
    return found


def _free_ports() -> tuple[int, int]:
    free: list[int] = []
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == 2:
            return free[0], free[1]
    raise PenstockError("Kafka needs two free ports on 127.0.0.1, and none was found")
