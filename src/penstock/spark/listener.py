"""Wakes a site between batches; the plans do not depend on it."""

from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class Listener(StreamingQueryListener):
    """``hear`` is called after each batch, ``ended`` with the run that stopped or failed."""

    def __init__(self, hear: Callable[[], None], ended: Callable[[str], None]) -> None:
        self._hear, self._ended = hear, ended

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        del event  # it is late and abridged; the engine is asked instead
        self._hear()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._ended(str(event.runId))
