"""Why a message is refused, with which status of HTTP, and how often that has happened."""

from enum import StrEnum
from threading import Lock

from penstock.errors import PenstockError


class Reason(StrEnum):
    """Is why a site or the oracle did not do what it was asked to; refusals are counted by it."""

    NOT_HTTP = "not-http"
    TRUNCATED = "truncated"
    BAD_JSON = "bad-json"
    BAD_TOKEN = "bad-token"
    FORBIDDEN = "forbidden"
    UNKNOWN_PATH = "unknown-path"
    WRONG_METHOD = "wrong-method"
    UNKNOWN_FRAGMENT = "unknown-fragment"
    UNKNOWN_QUERY = "unknown-query"
    UNKNOWN_SITE = "unknown-site"
    UNKNOWN_SOURCE = "unknown-source"
    OLD_SEQUENCE = "old-sequence"
    CONFLICT = "conflict"
    """Something of this name runs already, and is something else."""
    NO_ROOM = "no-room"
    TOO_LARGE = "too-large"
    BAD_MESSAGE = "bad-message"
    BAD_SQL = "bad-sql"
    NOT_POSSIBLE = "not-possible"
    """What was asked for is well said, and a mistake; the message tells which."""
    TOO_MANY = "too-many"


STATUS_OF_REASON = {
    Reason.NOT_HTTP: 400,
    Reason.TRUNCATED: 400,
    Reason.BAD_JSON: 400,
    Reason.BAD_TOKEN: 401,
    Reason.FORBIDDEN: 403,
    Reason.UNKNOWN_PATH: 404,
    Reason.WRONG_METHOD: 405,
    Reason.UNKNOWN_FRAGMENT: 404,
    Reason.UNKNOWN_QUERY: 404,
    Reason.UNKNOWN_SITE: 404,
    Reason.UNKNOWN_SOURCE: 404,
    Reason.OLD_SEQUENCE: 409,
    Reason.CONFLICT: 409,
    Reason.NO_ROOM: 409,
    Reason.TOO_LARGE: 413,
    Reason.BAD_MESSAGE: 422,
    Reason.BAD_SQL: 422,
    Reason.NOT_POSSIBLE: 422,
    Reason.TOO_MANY: 429,
}


class RefusedError(PenstockError):
    """Is raised by what will not do as it is asked; whoever asked is told the message."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def status(self) -> int:
        """The status of HTTP that goes with the reason."""
        return STATUS_OF_REASON[self.reason]


class Refusals:
    """Counts refusals by reason, for all threads of a process."""

    def __init__(self) -> None:
        self._counts: dict[Reason, int] = {}
        self._lock = Lock()

    def count(self, reason: Reason) -> None:
        """Counts one more."""
        with self._lock:
            self._counts[reason] = self._counts.get(reason, 0) + 1

    def counts(self) -> dict[str, int]:
        """Answers how often something was refused for each reason that there was."""
        with self._lock:
            return {reason.value: count for reason, count in sorted(self._counts.items())}
