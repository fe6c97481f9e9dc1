"""Checks every request before an application sees it: who calls, how often, how much, and JSON."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.federation.access import READER, Access
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.strict_json import parse

LARGEST_BODY_BYTES = 1_000_000
"""Of a request whose path has no limit of its own."""
LARGEST_DRAINED_BYTES = 4_000_000
"""So much of a body that is refused is read on, so that its sender comes to read the answer."""
LONGEST_BODY_SECONDS = 10.0
LONGEST_DRAIN_SECONDS = 1.0
METHODS_WITH_A_BODY = ("POST", "PUT", "PATCH")
METHODS_THAT_LOOK = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/health", "/")
"""What anybody may ask for, since it says nothing: the page at ``/`` shows what it is answered."""
OPEN_FOLDER = "/page/"
"""The same for what the page is made of."""

log = logging.getLogger(__name__)


class _Gone(Exception):
    """The sender of a body has gone before its end."""


class CheckedApp:
    """Wraps an application; a request that is refused never reaches it.

    The application finds the caller's name and the data of the body in ``request.state``, as
    ``caller`` and ``body``.
    """

    def __init__(
        self, app: ASGIApp, access: Access, body_limits: Mapping[str, int] | None = None
    ) -> None:
        self._app = app
        self._access = access
        self._limits = dict(body_limits or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        incoming = _Incoming(receive)
        try:
            state = await self._checked(scope, incoming)
        except RefusedError as refused:
            self._access.refusals.count(refused.reason)
            answer = refusal_response(refused)
            if not incoming.ended:
                if _said_length(Headers(scope=scope)) <= LARGEST_DRAINED_BYTES:
                    await incoming.drain()
                answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
            return
        except _Gone:
            self._access.refusals.count(Reason.TRUNCATED)
            return
        scope.setdefault("state", {}).update(state)
        try:
            await self._app(scope, _after_the_body(receive), send)
        except Exception:  # the application has answered it with a 500
            log.exception("%s %s failed", scope["method"], scope["path"])

    async def _checked(self, scope: Scope, incoming: "_Incoming") -> dict[str, Any]:
        """Answers the caller and what was sent; raises a refusal."""
        headers = Headers(scope=scope)
        with_body = scope["method"] in METHODS_WITH_A_BODY
        if _is_open(scope["path"]) and not with_body:
            return {"caller": "", "body": None}
        given = headers.getlist("authorization")
        caller = self._access.caller(
            given[0] if len(given) == 1 else None,
            headers.get("host", ""),
            scope["client"][0] if scope["client"] else "",
            time.monotonic(),
        )
        if caller == READER and scope["method"] not in METHODS_THAT_LOOK:
            raise RefusedError(Reason.BAD_TOKEN, "needs 'Authorization: Bearer TOKEN'")
        limit = self._limits.get(scope["path"], LARGEST_BODY_BYTES) if with_body else 0
        body = await _body(headers, incoming, limit)
        return {"caller": caller, "body": _data(headers, body) if with_body else None}


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


class _Incoming:
    """Is the body of a request while it comes."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False

    async def parts(self) -> AsyncIterator[bytes]:
        """Answers what has come until the body's end."""
        while not self.ended:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.ended = True
                raise _Gone
            self.ended = not message.get("more_body", False)
            yield message.get("body", b"")

    async def drain(self) -> None:
        """Reads on for a while: who is cut off while sending does not come to read why."""
        read = 0
        try:
            async with asyncio.timeout(LONGEST_DRAIN_SECONDS):
                async for part in self.parts():
                    read += len(part)
                    if read > LARGEST_DRAINED_BYTES:
                        return
        except (TimeoutError, _Gone):
            return


def refusal_response(refused: RefusedError) -> JSONResponse:
    """Answers a refusal as every server of a federation does."""
    return JSONResponse({"error": str(refused)}, status_code=refused.status)


async def _body(headers: Headers, incoming: _Incoming, limit: int) -> bytes:
    """Reads a body up to a limit, whatever its length is said to be."""
    if _said_length(headers) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(LONGEST_BODY_SECONDS):
            async for part in incoming.parts():
                body += part
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise RefusedError(Reason.TRUNCATED, "the body did not come to its end") from None
    return bytes(body)


def _said_length(headers: Headers) -> int:
    """Answers how long a body is said to be; what is no number is not even HTTP."""
    return int(headers.get("content-length", "0"))


def _too_large(limit: int) -> RefusedError:
    return RefusedError(
        Reason.TOO_LARGE, f"the body must have at most {limit} bytes" if limit else "takes no body"
    )


def _data(headers: Headers, body: bytes) -> Any:
    """Reads the body; that its type is said keeps out forms of web pages that are open here."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(Reason.BAD_JSON, "needs a body with 'Content-Type: application/json'")
    return parse(body)


def _after_the_body(receive: Receive) -> Receive:
    """Stands for a body that has been read; what comes then is that the caller has gone."""
    told = False

    async def answer() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return answer
