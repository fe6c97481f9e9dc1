"""Hears from Spark between batches, and wakes the site."""

from collections.abc import Callable
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class Listener(StreamingQueryListener):
    """The plans do not depend on it: it is late and abridged, and the engine is asked instead."""

    def __init__(self, progressed: Callable[[], None], ended: Callable[[str], None]) -> None:
        self._progressed, self._ended = progressed, ended
        self._bell: Any = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        del event

    def onQueryProgress(self, event: QueryProgressEvent | None = None) -> None:
        del event
        self._progressed()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._ended(str(event.runId))

    @property
    def _jlistener(self) -> Any:
        """PySpark's own reads every event into Python, with the counts of all strata: tens of
        milliseconds a batch, just while the next one is planned, and nobody looks at them.
        """
        if self._bell is None:
            wrapper: Any = SparkContext._jvm
            self._bell = wrapper.PythonStreamingQueryListenerWrapper(_Bell(self))
        return self._bell


class _Bell:
    """What the JVM calls; events stay there."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        del event
        self._listener.onQueryProgress()

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJObject(event))

    class Java:
        implements: ClassVar[list[str]] = [
            "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
        ]
