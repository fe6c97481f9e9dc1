"""Hears from Spark between batches, and wakes the site."""

from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class Listener(StreamingQueryListener):
    """The plans do not depend on it: it is late and abridged, and the engine is asked instead."""

    def __init__(self, progressed: Callable[[], None], ended: Callable[[str], None]) -> None:
        self._progressed, self._ended = progressed, ended

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        del event
        self._progressed()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._ended(str(event.runId))
