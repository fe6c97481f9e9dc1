"""The server on the driver that tells tasks the plan in force, and the client that asks it.

The function that ``mapInArrow`` runs is fixed when Spark analyses the query, so a task must fetch
what changes from batch to batch. It does so once, when it starts: one small message each way, to
the address at which executors reach the driver anyway. Tasks report back through Spark's
accumulators, not through this server.
"""

import hmac
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import PenstockError

ANSWER_TIMEOUT_SECONDS = 10.0
"""How long a task waits for the server, and the server for a task."""
TOKEN_BYTES = 32
LONGEST_NAME_BYTES = 1000
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class PlanClient:
    """What a task needs in order to ask the server. The token keeps strangers out."""

    host: str
    port: int
    token: bytes
    name: str

    def fetch(self) -> bytes:
        """Asks the server for the plan in force, and returns it as bytes."""
        try:
            with socket.create_connection((self.host, self.port), ANSWER_TIMEOUT_SECONDS) as link:
                name = self.name.encode()
                link.sendall(self.token + _LENGTH.pack(len(name)) + name)
                stream = link.makefile("rb")
                (size,) = _LENGTH.unpack(_exactly(stream.read, _LENGTH.size))
                return _exactly(stream.read, size)
        except OSError as error:
            raise ConnectionError(
                f"{self.name}: nobody answers at {self.host}:{self.port} ({error}). Either its "
                "site has stopped, and the query should have stopped before, or executors do not "
                "reach the driver"
            ) from None


class PlanServer:
    """Answers tasks on threads of its own, as long as its site lives; port 0 takes a free one."""

    def __init__(self, bind: str, host: str, port: int = 0) -> None:
        self._answers: dict[str, Callable[[], bytes]] = {}
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._host = host
        try:
            self._server = _TaskServer((bind, port), _TaskHandler)
        except OSError as error:
            raise PenstockError(
                f"the guards' server must have an address of the driver, and {bind}:{port} cannot "
                f"be had: {error.strerror or error}"
            ) from None
        self._server.plans = self
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()

    def serve(self, name: str, answer: Callable[[], bytes]) -> PlanClient:
        """Begins to answer tasks that ask for ``name``, and returns the client that they use."""
        self._answers[name] = answer
        return PlanClient(self._host, self._server.server_address[1], self._token, name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, token: bytes, name: str) -> bytes | None:
        """Returns None to callers without the token, and for names that nobody serves."""
        if not hmac.compare_digest(token, self._token) or name not in self._answers:
            return None
        return self._answers[name]()


class _TaskServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    """Tasks begin together. Those that the usual queue of 5 turns away try again after a second."""
    plans: PlanServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores a caller that hangs up or talks nonsense: it is none of the job's business."""


class _TaskHandler(socketserver.StreamRequestHandler):
    timeout = ANSWER_TIMEOUT_SECONDS

    def handle(self) -> None:
        assert isinstance(self.server, _TaskServer)
        token = _exactly(self.rfile.read, TOKEN_BYTES)
        (size,) = _LENGTH.unpack(_exactly(self.rfile.read, _LENGTH.size))
        if size > LONGEST_NAME_BYTES:
            return
        answer = self.server.plans.answer(token, _exactly(self.rfile.read, size).decode())
        if answer is not None:
            self.wfile.write(_LENGTH.pack(len(answer)) + answer)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    data = read(size)
    if len(data) != size:
        raise ConnectionError(f"{size} bytes expected from the driver, {len(data)} came")
    return data
