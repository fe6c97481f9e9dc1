"""Where tasks ask the driver what is in force now.

The function that ``mapInArrow`` runs is fixed when the query is analysed, so what changes from
batch to batch must be fetched. A task asks once, when it starts: one small message each way, to
the address at which executors reach the driver anyway. What tasks have to tell comes back through
Spark's accumulators, which count a task once however often it was tried.
"""

import hmac
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

_LENGTH = struct.Struct("<I")
_TOKEN = 32
PATIENCE = 10.0
"""Seconds that a task waits for an answer."""


@dataclass(frozen=True)
class PlanClient:
    """What a task needs in order to ask. The token keeps strangers out."""

    host: str
    port: int
    token: bytes
    name: str

    def fetch(self) -> bytes:
        try:
            with socket.create_connection((self.host, self.port), PATIENCE) as connection:
                name = self.name.encode()
                connection.sendall(self.token + _LENGTH.pack(len(name)) + name)
                stream = connection.makefile("rb")
                (size,) = _LENGTH.unpack(_exactly(stream.read, _LENGTH.size))
                return _exactly(stream.read, size)
        except OSError as error:
            raise ConnectionError(
                f"{self.name}: nobody answers at {self.host}:{self.port} ({error}). Either its "
                "site has stopped, and the query should have stopped before, or executors do not "
                "reach the driver"
            ) from None


class PlanServer:
    """Answers tasks on threads of its own, as long as its site lives."""

    def __init__(self, bind: str, host: str) -> None:
        self._answers: dict[str, Callable[[], bytes]] = {}
        self._token = secrets.token_bytes(_TOKEN)
        self._host = host
        self._server = _Server((bind, 0), _Handler)
        self._server.desk = self
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()

    def serve(self, name: str, answer: Callable[[], bytes]) -> PlanClient:
        self._answers[name] = answer
        return PlanClient(self._host, self._server.server_address[1], self._token, name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, token: bytes, name: str) -> bytes | None:
        """None to those without the token, and to questions that nobody registered."""
        if not hmac.compare_digest(token, self._token) or name not in self._answers:
            return None
        return self._answers[name]()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    """Tasks begin together. Those that the usual queue of 5 turns away try again after a second."""
    desk: PlanServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up or talks nonsense is none of the job's business."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        token = _exactly(self.rfile.read, _TOKEN)
        (size,) = _LENGTH.unpack(_exactly(self.rfile.read, _LENGTH.size))
        if size > LONGEST_NAME:
            return
        answer = self.server.desk.answer(token, _exactly(self.rfile.read, size).decode())
        if answer is not None:
            self.wfile.write(_LENGTH.pack(len(answer)) + answer)


LONGEST_NAME = 1000


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    data = read(size)
    if len(data) != size:
        raise ConnectionError(f"{size} bytes expected from the driver, {len(data)} came")
    return data
