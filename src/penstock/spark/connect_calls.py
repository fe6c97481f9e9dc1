"""How the program of a site reaches its part on a server of Spark Connect.

A client can call and cannot be called. So a thread here asks for what is new, again and again, in a
call that lasts until there is something; the answer to the last question goes along with it. The
other end is ``jvm/io/penstock/RemoteSite``: it repeats whatever a call has lost on its way.
"""

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

from pyspark.errors import PySparkException

from penstock.spark.engine import CATALOG

log = logging.getLogger("penstock")
WAIT_MILLIS = 10_000
"""How long a call lasts while nothing happens."""
RETRY_SECONDS = 1.0
END_SECONDS = 30.0
"""How long the end of a site waits for the last reports."""
SESSION_IS_GONE = "INVALID_HANDLE"
"""How Spark's errors begin that say that the server knows the session no more."""


class Heard(Protocol):
    """What becomes of what is heard."""

    def hear(self, news: dict[str, Any]) -> None:
        """Something has happened at the server."""

    def stands(self, runs: frozenset[str], cores: int) -> None:
        """These runs of queries go on, on so many cores."""

    def answer(self, question: dict[str, Any]) -> bytes:
        """A gate's plan for a batch, encoded."""


class Calls:
    """The functions of the catalog, for one site and any thread."""

    def __init__(self, spark: Any, site: str) -> None:
        self._functions = import_module("pyspark.sql.connect.functions")
        self._site = site
        self._one = spark.createDataFrame([(1,)], "one int")  # local: no job runs for it

    def tell(self, what: str, of: str = "") -> str:
        return self._call("tell", what, of)

    def next(self, arrived: int, number: int, answer: bytes) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(
            self._call("next", arrived, number, answer, WAIT_MILLIS),
        )
        return told

    def _call(self, name: str, *arguments: str | int | bytes) -> str:
        """Calls a function, in a frame of its own: Spark evaluates one frame only once."""
        literals = map(self._functions.lit, (self._site, *arguments))
        call = self._functions.call_function(f"{CATALOG}.{name}", *literals)
        return str(self._one.select(call.alias("told")).collect()[0][0])


class Listening:
    """The thread that asks for what is new, until it is closed."""

    def __init__(self, calls: Calls, heard: Heard, is_over: Callable[[], bool]) -> None:
        self._calls, self._heard, self._is_over = calls, heard, is_over
        self._closing = threading.Event()
        self._marks = threading.Condition()
        self._mark = 0
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="penstock-connect", daemon=True)
        self._thread.start()

    def catch_up(self, seconds: float) -> None:
        """Waits until everything is heard that has happened so far."""
        if self._closing.is_set() or threading.current_thread() is self._thread:
            return
        try:
            mark = int(self._calls.tell("catch up"))
        except Exception as error:  # what is known can be told all the same
            log.warning("%s; what is told may be old", _reason(error))
            return
        with self._marks:
            self._marks.wait_for(lambda: self._mark >= mark or not self._thread.is_alive(), seconds)

    def close(self) -> None:
        """Hears what has happened last, and ends."""
        with suppress(Exception):  # a session that has ended has nothing to tell
            self._calls.tell("close")
        self._closing.set()
        self._thread.join(END_SECONDS)
        with suppress(Exception):
            self._calls.tell("forget")

    def _run(self) -> None:
        arrived, number, answer, failed = 0, 0, b"", False
        while True:
            try:
                told = self._calls.next(arrived, number, answer)
            except Exception as error:
                if self._gone(error):
                    return
                if not failed:
                    log.error("%s; queries go on with the plans that they have", _reason(error))
                failed = True
                self._closing.wait(RETRY_SECONDS)
                continue
            number, answer, failed = 0, b"", False
            self._heard.stands(frozenset(told["running"]), told["cores"])
            for news in told["news"]:
                self._hear(news)
                arrived = int(news["number"])
            if told["lost"] > self._lost:
                self._lost = told["lost"]
                log.error("%d reports of batches were lost, as nobody fetched them", self._lost)
            if told["closed"]:
                return
            if told["question"] is not None:
                number = told["question"]["number"]
                answer = self._heard.answer(told["question"])

    def _hear(self, news: dict[str, Any]) -> None:
        if news["kind"] == "mark":
            with self._marks:
                self._mark = int(news["number"])
                self._marks.notify_all()
            return
        try:
            self._heard.hear(news)
        except Exception:
            log.exception("cannot take in what Spark reports")

    def _gone(self, error: Exception) -> bool:
        """Whether no call will ever be answered again."""
        if self._closing.is_set() or self._is_over():
            return True
        told = error.getCondition() if isinstance(error, PySparkException) else None
        if told is not None and told.startswith(SESSION_IS_GONE):
            log.error("the session has ended at the server, and with it this site: %s", told)
            return True
        return False


def _reason(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"the Spark Connect server does not answer: {type(error).__name__}: {first}"
