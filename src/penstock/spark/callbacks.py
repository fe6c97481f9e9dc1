"""What the JVM calls in the driver's Python process."""

from typing import ClassVar, Protocol


class Callbacks(Protocol):
    """Answers to the JVM's calls."""

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        """The gate's plan for a micro-batch, encoded; ``batch`` is -1 outside of one."""

    def started(self, query: str) -> None:
        """A query of the session, with this id, is about to begin; Spark waits for the answer."""

    def progressed(self) -> None:
        """A query of the session has finished a micro-batch."""

    def ended(self, run: str) -> None:
        """A run of a query was stopped, or has failed."""


class JavaCallbacks:
    """The callbacks as an object that implements the interface of ``jvm/``."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        return self._callbacks.plan(gate, query, run, batch)

    def started(self, query: str) -> None:
        self._callbacks.started(query)

    def progressed(self) -> None:
        self._callbacks.progressed()

    def ended(self, run: str) -> None:
        self._callbacks.ended(run)

    class Java:
        implements: ClassVar[list[str]] = ["io.penstock.PlanDriver"]
