"""Serves an application over HTTP from a thread, beside whatever else a process does."""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.errors import PenstockError
from penstock.federation.refusals import Reason, Refusals
from penstock.federation.site_file import CertificateEntry

LONGEST_START_SECONDS = 20.0
LONGEST_STOP_SECONDS = 5
"""How long requests that are being answered are waited for."""
IDLE_CONNECTION_SECONDS = 30
"""Longer than an interval, so that coordinators keep their connections."""
FIRST_REQUEST_SECONDS = 10.0
"""How long whoever connects may take for the head of a request."""
MOST_CONNECTIONS = 500
LARGEST_HEADER_BYTES = 16_384
WAITING_CONNECTIONS = 256


class ServedApp:
    """Serves one application; its port is known once it has started.

    It leaves signals alone: whoever runs the process stops it, with ``stop`` or by the end of a
    ``with`` block. ``stopping`` is called first, to end answers that would go on for ever.
    """

    def __init__(
        self,
        app: ASGIApp,
        refusals: Refusals,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: CertificateEntry | None = None,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._ready = threading.Event()
        self._server = _Server(_config(app, refusals, tls), self._ready.set, stopping)
        self._thread = threading.Thread(target=self._serve, name="penstock-http", daemon=True)
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port that it listens on, or is to listen on."""
        return self._port

    @property
    def address(self) -> str:
        """What clients are told, such as http://127.0.0.1:7100."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self._port}"

    def start(self) -> None:
        """Begins to listen, and returns when requests are answered."""
        try:
            self._server.config.load()
        except (OSError, ssl.SSLError) as error:
            raise PenstockError(
                f"'tls' must name a certificate and its key, as PEM files; got {error}"
            ) from None
        self._socket = _listen(self._host, self._port)
        self._port = self._socket.getsockname()[1]
        self._thread.start()
        if not self._ready.wait(LONGEST_START_SECONDS) or not self._server.started:
            self.stop()
            raise PenstockError(f"{self.address} does not answer; the log says why")

    def stop(self) -> None:
        """Answers what is being asked, and listens no more; may be called twice."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(LONGEST_STOP_SECONDS + 2)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(LONGEST_STOP_SECONDS)
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> "ServedApp":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket] if self._socket else None)
        except SystemExit:  # uvicorn's answer to an application that does not start
            logging.getLogger(__name__).error("%s did not start", self.address)
        finally:
            self._ready.set()


class _Server(uvicorn.Server):
    """Says when it has started, and when it stops."""

    def __init__(
        self, config: uvicorn.Config, told: Callable[[], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._told, self._stopping = told, stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._told()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()  # before it waits for what is being answered, which may have no end
        await super().shutdown(sockets)


def _config(app: ASGIApp, refusals: Refusals, tls: CertificateEntry | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_counting(refusals),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=LARGEST_HEADER_BYTES,
        timeout_keep_alive=IDLE_CONNECTION_SECONDS,
        timeout_graceful_shutdown=LONGEST_STOP_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


def _counting(refusals: Refusals) -> type[H11Protocol]:
    """Counts what is not even HTTP, and waits for nobody who says nothing."""

    class _Counting(H11Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            super().connection_made(transport)
            self._patience = self.loop.call_later(FIRST_REQUEST_SECONDS, self._close_if_silent)

        def connection_lost(self, exc: Exception | None) -> None:
            self._patience.cancel()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            if _none(self.cycle) or self.cycle.response_complete:  # else its reader is told
                refusals.count(Reason.NOT_HTTP)
            super().send_400_response(msg)

        def _close_if_silent(self) -> None:
            """Nothing but whole requests gets a time limit from uvicorn."""
            if _none(self.cycle):
                refusals.count(Reason.NOT_HTTP)
                self.transport.close()

    return _Counting


def _none(cycle: object) -> bool:
    """Says whether a connection has had no request yet, which uvicorn's types do not know of."""
    return cycle is None


def _listen(host: str, port: int) -> socket.socket:
    """Takes the port at once, so that it is known, and that a mistake is told here."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS)
    except OSError as error:
        raise PenstockError(
            f"'host' and 'port' must be free to listen on; got {host}:{port}: {error.strerror}"
        ) from None
