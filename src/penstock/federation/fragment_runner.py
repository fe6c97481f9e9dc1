"""Runs fragments on a site: each is one Spark query behind gates, from its inputs to its output."""

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType, TimestampType

from penstock.errors import PenstockError
from penstock.federation.delivery import CAME, Delivery
from penstock.federation.fragment_inputs import (
    ARRIVED,
    TICK,
    FragmentInputs,
    columns_of,
    with_tick,
)
from penstock.federation.fragment_plan import DERIVED_MARKS, TIME, PlannedFragment, SplitQuery
from penstock.federation.ids import fragment_id
from penstock.federation.known_splits import KnownSplits
from penstock.federation.link import LinkError, LinkName, Links, Sending, checkpoint_name
from penstock.federation.messages import FAILED, RUNNING, STOPPED, FragmentOrder
from penstock.federation.query_file import ROOT
from penstock.federation.site_file import SiteFile
from penstock.jobs.results import answer, derived_rows
from penstock.spark import spark_errors
from penstock.spark.gate.wire import nowhere
from penstock.spark.query import RESULT_METRICS
from penstock.spark.site import Site

log = logging.getLogger("penstock")
CANDIDATES, RESULTS = "candidates", "results"
"""The directories beside the links in which replicas put what they have, and what is delivered."""
CHECKPOINTS = "checkpoints"
"""The directory beside the links of a query that its fragments' checkpoints are in: where links
are shared, a fragment that moves to another site goes on where it was."""


@dataclass(frozen=True)
class RunningFragment:
    """Is a fragment that was started."""

    order: FragmentOrder
    plan: PlannedFragment
    columns: str
    """Of the link that it writes; empty for the root."""
    stream: StreamingQuery
    output: "Sender | Delivery | None"
    """What sends its rows on; of a root with replicas, what chooses between their results."""

    @property
    def id(self) -> str:
        """Its name among the fragments of all queries."""
        order = self.order
        return fragment_id(order.fragment, order.query.query, order.replica)

    def stop(self) -> None:
        """Stops it; its checkpoint stays, and so does what it has not delivered yet."""
        self.stream.stop()
        if isinstance(self.output, Delivery):
            self.output.stop()

    @property
    def state(self) -> str:
        """Is ``running``, ``failed`` or, where it was stopped, ``stopped``."""
        if self.stream.isActive:
            return RUNNING
        return FAILED if self.stream.exception() is not None else STOPPED

    @property
    def trouble(self) -> str:
        """Why it has failed, in a line; empty where it has not."""
        error = None if self.stream.isActive else self.stream.exception()
        if error is None:
            return ""
        said = self.output.trouble if isinstance(self.output, Sender) else ""
        return said or spark_errors.why_failed(error)

    def check_links(self) -> None:
        """Raises a ``LinkError`` where it has failed by a link that still cannot be written."""
        if isinstance(self.output, Sender):
            self.output.check()

    @property
    def sent(self) -> int:
        """The rows that it has sent to other fragments since it was started."""
        return self.output.rows if isinstance(self.output, Sender) else 0


class FragmentRunner:
    """Starts fragments on one site."""

    def __init__(
        self,
        site: Site,
        file: SiteFile,
        directory: Path,
        shared: Path,
        links: Links,
        splits: KnownSplits,
    ) -> None:
        self._site, self._file, self._splits = site, file, splits
        self._directory, self._shared, self._links = directory, shared, links

    def start(self, order: FragmentOrder) -> RunningFragment:
        """Starts a fragment, or goes on with it where its checkpoint is."""
        cut = self._splits.of(order)
        plan = cut.fragment(order.fragment)
        inputs = FragmentInputs(self._site, self._file, self._directory, self._links, order)
        output: Sender | Delivery | None
        if plan.by_batch:
            writer, columns, output = self._by_batch(cut, plan, inputs, order)
        else:
            writer, columns, output = self._with_state(cut, plan, inputs, order)
        query = order.query
        identity = fragment_id(order.fragment, query.query, order.replica)
        stream = self._site.start(
            writer,
            name=identity,
            interval=query.interval,
            checkpoint=self._shared / query.query / CHECKPOINTS / identity,
        )
        if isinstance(output, Delivery):
            output.start()
        return RunningFragment(order, plan, columns, stream, output)

    def _by_batch(
        self, cut: SplitQuery, plan: PlannedFragment, inputs: FragmentInputs, order: FragmentOrder
    ) -> tuple[DataStreamWriter, str, "Sender"]:
        """Returns what writes a fragment that keeps no state, and the columns of its link."""
        if plan.inputs:
            (relation,) = plan.inputs
            rows = inputs.link(cut, plan, relation)
        else:
            rows = inputs.sources(cut, plan)
        view = fragment_id(order.fragment, cut.query, order.replica)
        query = plan.batch_query(view)
        empty = rows.sparkSession.createDataFrame([], rows.schema)
        schema = _over(empty, view, query).schema
        sender = self._sender(cut, plan, order, query, view)
        return rows.writeStream.foreachBatch(sender), _link_columns(schema), sender

    def _with_state(
        self, cut: SplitQuery, plan: PlannedFragment, inputs: FragmentInputs, order: FragmentOrder
    ) -> tuple[DataStreamWriter, str, "Sender | Delivery | None"]:
        """Returns what writes the root or another fragment with state, and its link's columns."""
        assert plan.rewritten is not None
        inputs.make_views(cut, plan)
        plain = inputs.plain_schema(plan.rewritten, plan)
        spark = self._site.spark
        if plan.name == ROOT and len(order.places.get(ROOT, [])) > 1:
            frame = answer(spark, plan.rewritten, plain, observed=RESULT_METRICS, came=CAME)
            delivery = self._delivery(order, plain)
            return frame.writeStream.foreachBatch(delivery), "", delivery
        if plan.name == ROOT:
            frame = answer(spark, plan.rewritten, plain, observed=RESULT_METRICS)
            return self._to_sink(frame, order), "", None
        rows = derived_rows(spark, plan.rewritten, plain).withColumnsRenamed(DERIVED_MARKS)
        sender = self._sender(cut, plan, order, None, "")
        return rows.writeStream.foreachBatch(sender), _link_columns(rows.schema), sender

    def _sender(
        self,
        cut: SplitQuery,
        plan: PlannedFragment,
        order: FragmentOrder,
        query: str | None,
        view: str,
    ) -> "Sender":
        name = fragment_id(order.fragment, cut.query, order.replica)
        checkpoint = self._shared / cut.query / CHECKPOINTS / name
        receivers = _links_to(cut, plan, order)
        event_time = plan.time or TIME
        return Sender(
            self._links, receivers, plan.routes, event_time, name, checkpoint, query, view
        )

    def _delivery(self, order: FragmentOrder, plain: StructType) -> Delivery:
        """Returns what delivers the result of one replica of the root."""
        times = [field for field in plain if isinstance(field.dataType, TimestampType)]
        if len(times) != 1:
            raise PenstockError(
                "a query with replicas must have one timestamp among its columns, such as "
                f"window.start AS ts, by which its windows are told apart; got {len(times)}"
            )
        home = self._shared / order.query.query
        return Delivery(
            candidates=home / CANDIDATES,
            results=home / (order.query.sink.path or RESULTS),
            replica=order.replica,
            replicas=len(order.places[ROOT]),
            interval=order.query.interval or self._file.interval,
            time_column=times[0].name,
        )

    def _to_sink(self, frame: DataFrame, order: FragmentOrder) -> DataStreamWriter:
        """Results of files lie beside the links, so that a root that moves goes on with them."""
        sink = order.query.sink
        writer = frame.writeStream.format(sink.format).options(**sink.options)
        if sink.path is None:
            return writer
        return writer.option("path", str(self._shared / order.query.query / sink.path))


class Sender:
    """Writes what a fragment makes of each micro-batch into the links of those who read it."""

    def __init__(
        self,
        links: Links,
        receivers: list[list[LinkName]],
        routes: str | None,
        event_time: str,
        sender: str,
        checkpoint: Path,
        query: str | None,
        view: str,
    ) -> None:
        self._links, self._receivers = links, receivers
        self._routes, self._time = routes, event_time
        self._sender, self._checkpoint = sender, checkpoint
        self._query, self._view = query, view
        self.rows = 0
        """How many were sent."""
        self.trouble = ""
        """Why its links cannot be written, if they cannot."""
        self._writers: list[Sending] = []
        self._last_start = time.time()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Sends one batch; all that is in it arrived after the batch before had begun.

        Where a link cannot be written the fragment fails, and its site starts it again: then the
        batch is read once more, and nothing is lost.
        """
        try:
            self._send(batch, number)
        except LinkError as error:
            self.trouble = str(error)
            log.error("%s: %s; its rows wait where they come from", self._sender, error)
            raise

    def check(self) -> None:
        """Raises a ``LinkError`` where its links still cannot be written."""
        if self.trouble:
            self._open()
            for writer in self._writers:
                writer.check()

    def _open(self) -> None:
        if not self._writers:
            checkpoint = checkpoint_name(self._checkpoint)
            self._writers = [
                self._links.writer(names, self._sender, checkpoint) for names in self._receivers
            ]

    def _send(self, batch: DataFrame, number: int) -> None:
        since, self._last_start = self._last_start, time.time()
        self._open()
        rows = batch if self._query is None else _over(batch, self._view, self._query)
        rows = rows.withColumn(ARRIVED, _as_data(datetime.fromtimestamp(since, UTC)))
        if self._routes is None or len(self._writers) == 1:
            self.rows += sum(writer.write(rows, number) for writer in self._writers)
            return
        rows.persist()  # or the gate would see each tuple once for every receiver
        try:
            for place, writer in enumerate(self._writers):
                mine = rows.where(f"({self._routes}) = {place}")
                self.rows += writer.write(with_tick(mine, rows, self._time), number)
        finally:
            rows.unpersist()


def _links_to(cut: SplitQuery, plan: PlannedFragment, order: FragmentOrder) -> list[list[LinkName]]:
    """Returns, for each receiver, the links of its replicas; one list where all get all."""
    found = []
    for name in cut.receivers(plan.name):
        replicas = len(order.places.get(name, [])) or 1
        relations = [r for r, senders in cut.fragment(name).inputs.items() if plan.name in senders]
        found.append(
            [
                LinkName(cut.query, name, relation, replica)
                for relation in relations
                for replica in range(replicas)
            ]
        )
    if not found:
        raise PenstockError(f"nobody reads the fragment {plan.name!r}")
    return found if plan.routes is not None else [[each for some in found for each in some]]


def _over(batch: DataFrame, view: str, query: str) -> DataFrame:
    batch.createOrReplaceTempView(f"`{view}`")
    return batch.sparkSession.sql(query)


def _as_data(moment: datetime) -> Column:
    """Returns a constant that Spark does not compile into the code of every batch."""
    return sf.get(sf.array(sf.lit(moment)), nowhere())


def _link_columns(schema: StructType) -> str:
    return f"{columns_of(schema)}, `{ARRIVED}` timestamp, `{TICK}` boolean"
