"""Sends figures to whoever looks, as server-sent events: all of them first, then what changes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from penstock.federation.refusals import Reason, RefusedError

SECONDS_BETWEEN_FRAMES = 1.0
MANY_FIGURES = 60
"""Beyond so many, frames come every other second: writing and showing them takes its time."""
MOST_WATCHERS = 50
Figures = Mapping[str, Any]
"""By a key such as ``site:rome``: anything that JSON can hold."""
Tell = Callable[[float], Figures]
"""Says at a time, in seconds since 1970, what there is to see."""


class Live:
    """Asks for the figures once a second, however many look, and not at all while nobody does."""

    def __init__(self, tell: Tell, seconds: float = SECONDS_BETWEEN_FRAMES) -> None:
        self._tell, self._seconds = tell, seconds
        self._watchers = 0
        self._stopping = asyncio.Event()
        self._asking = asyncio.Lock()
        self._asked = float("-inf")
        self._at = 0.0
        self._texts: dict[str, str] = {}

    def stop(self) -> None:
        """Ends all streams, so that the server need not wait for them."""
        self._stopping.set()

    async def frames(self) -> AsyncIterator[str]:
        """Answers what one watcher is sent, until the server stops."""
        self._watchers += 1
        try:
            sent: dict[str, str] = {}
            while not self._stopping.is_set():
                texts = await self._ask()
                yield frame(self._at, sent, texts)
                sent = texts
                await self._pause()
        finally:
            self._watchers -= 1

    def add(self, app: FastAPI) -> None:
        """Adds the stream to an application."""

        @app.get("/live", response_class=StreamingResponse)
        async def live() -> StreamingResponse:
            """Sends what the page shows, every second or two, as server-sent events.

            Each has ``at``, the time in seconds since 1970, ``set``, the figures that have changed
            since the one before, by their keys, and ``gone``, the keys that there are no more.
            """
            if self._watchers >= MOST_WATCHERS:
                raise RefusedError(
                    Reason.TOO_MANY, f"{MOST_WATCHERS} look already; try again later"
                )
            headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
            return StreamingResponse(self.frames(), media_type="text/event-stream", headers=headers)

    async def _ask(self) -> dict[str, str]:
        """Answers the figures as JSON, which all watchers of the same second share."""
        async with self._asking:
            if time.monotonic() - self._asked >= self._seconds / 2:
                self._at = time.time()
                self._texts = await run_in_threadpool(self._told, self._at)
                self._asked = time.monotonic()
            return self._texts

    def _told(self, now: float) -> dict[str, str]:
        return {
            key: json.dumps(value, separators=(",", ":")) for key, value in self._tell(now).items()
        }

    async def _pause(self) -> None:
        seconds = self._seconds * (2 if len(self._texts) > MANY_FIGURES else 1)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


def frame(at: float, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Writes one event; ``before`` and ``now`` are figures as JSON.

    >>> frame(7.0, {"a": "1", "b": "2"}, {"a": "1", "c": "[3]"})
    'data: {"at":7.0,"set":{"c":[3]},"gone":["b"]}\\n\\n'
    """
    new = ",".join(
        f"{json.dumps(key)}:{text}" for key, text in now.items() if before.get(key) != text
    )
    gone = json.dumps([key for key in before if key not in now], separators=(",", ":"))
    return f'data: {{"at":{at},"set":{{{new}}},"gone":{gone}}}\n\n'
