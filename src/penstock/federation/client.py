"""Calls a site over HTTP, and says what went wrong where."""

import ssl
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from penstock.errors import PenstockError
from penstock.federation.messages import (
    FragmentAnswer,
    FragmentOrder,
    FragmentStatus,
    SicUpdate,
    SiteSources,
    SiteStatistics,
)
from penstock.federation.refusals import RefusedError
from penstock.federation.site_file import CertificateEntry
from penstock.federation.strict_json import complaint, parse

CONNECT_SECONDS = 2.0
USUAL_ANSWER_SECONDS = 5.0
UPDATE_ANSWER_SECONDS = 2.0
DEPLOY_ANSWER_SECONDS = 120.0
"""A site compiles and rehearses a query before it answers."""
NOT_FOUND_STATUS = 404
LARGEST_ANSWER_BYTES = 20_000_000
LONGEST_SAID_CHARACTERS = 1_000

Answer = TypeVar("Answer")


class CallError(PenstockError):
    """Is raised where a call did not succeed; ``status`` is None where nobody has answered."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Sent(NamedTuple):
    """Counts payloads of ``update-sic``."""

    messages: int = 0
    bytes: int = 0
    bytes_max: int = 0

    def plus(self, size: int) -> "Sent":
        """Counts one more."""
        return Sent(self.messages + 1, self.bytes + size, max(self.bytes_max, size))


class HttpCaller:
    """Calls one address; may be used by several threads at a time."""

    def __init__(
        self, address: str, token: str | None = None, tls: CertificateEntry | None = None
    ) -> None:
        self.address = address.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(
                base_url=self.address,
                headers=headers,
                verify=_trusted(tls.authority if tls else None),
                trust_env=False,
                timeout=httpx.Timeout(USUAL_ANSWER_SECONDS, connect=CONNECT_SECONDS),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise PenstockError(
                f"an address must be such as http://127.0.0.1:7100; got {address!r}: {error}"
            ) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address})"

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def get(
        self, path: str, answer: type[Answer], query: Mapping[str, Any] | None = None
    ) -> Answer:
        """Asks for something; raises a ``CallError``."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self.call("GET", path, answer, query=given)

    def call(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        *,
        body: bytes | None = None,
        query: Mapping[str, Any] | None = None,
        seconds: float = USUAL_ANSWER_SECONDS,
    ) -> Answer:
        """Sends a request and reads the answer; raises a ``CallError`` with where and what."""
        where = f"{method} {self.address}{path}"
        try:
            with self._http.stream(
                method,
                path,
                content=body,
                params=query,
                headers={"Content-Type": "application/json"} if body is not None else {},
                timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
            ) as response:
                raw = _limited(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = str(error) or type(error).__name__
            raise CallError(f"{where}: no answer: {said}") from None
        if response.is_success:
            return _understood(where, raw, answer)
        raise CallError(f"{where}: {response.status_code}: {_said(raw)}", response.status_code)


class SiteClient(HttpCaller):
    """Calls a site."""

    def __init__(
        self, address: str, token: str | None = None, tls: CertificateEntry | None = None
    ) -> None:
        super().__init__(address, token, tls)
        self.updates = Sent()
        self._lock = Lock()

    def deploy(self, order: FragmentOrder) -> FragmentAnswer:
        """Asks the site to run a fragment."""
        return self.call(
            "POST",
            "/fragments",
            FragmentAnswer,
            body=payload(order),
            seconds=DEPLOY_ANSWER_SECONDS,
        )

    def remove(self, fragment_id: str, *, missing_is_well: bool = False) -> None:
        """Asks the site to stop a fragment."""
        path = f"/fragments/{fragment_id}"
        try:
            self.call("DELETE", path, dict[str, str], seconds=DEPLOY_ANSWER_SECONDS)
        except CallError as error:
            if not (missing_is_well and error.status == NOT_FOUND_STATUS):
                raise

    def update_sic(self, update: SicUpdate) -> int:
        """Tells the site what a query's result is worth, and answers the bytes of the payload."""
        body = payload(update)
        with self._lock:
            self.updates = self.updates.plus(len(body))
        self.call("POST", "/update-sic", dict[str, bool], body=body, seconds=UPDATE_ANSWER_SECONDS)
        return len(body)

    def fragments(self) -> list[FragmentStatus]:
        """Asks which fragments the site runs."""
        return self.get("/fragments", list[FragmentStatus])

    def sources(self) -> SiteSources:
        """Asks what the site is called, and which sources it lends."""
        return self.get("/sources", SiteSources)

    def statistics(self) -> SiteStatistics:
        """Asks for the site's statistics."""
        return self.get("/statistics", SiteStatistics)

    def report(self) -> dict[str, Any]:
        """Asks for the site's whole report."""
        return self.get("/report", dict[str, Any])


def payload(message: BaseModel) -> bytes:
    """Writes a message; what is not given is left out."""
    return message.model_dump_json(exclude_none=True, by_alias=True).encode()


@cache
def _trusted(authority: str | None) -> ssl.SSLContext:
    """Whose certificates are believed: those of the authority, or of this machine's usual ones."""
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise PenstockError(
            f"tls.authority must be a PEM file of certificates; got {authority!r}: {error}"
        ) from None


def _limited(response: httpx.Response) -> bytes:
    raw = bytearray()
    for part in response.iter_bytes():
        raw += part
        if len(raw) > LARGEST_ANSWER_BYTES:
            raise httpx.DecodingError(f"the answer has more than {LARGEST_ANSWER_BYTES} bytes")
    return bytes(raw)


def _understood(where: str, raw: bytes, answer: type[Answer]) -> Answer:
    try:
        return TypeAdapter(answer).validate_python(parse(raw))
    except RefusedError as refused:
        raise CallError(f"{where}: the answer cannot be read: {refused}") from None
    except ValidationError as error:
        said = complaint(error.errors(include_url=False))
        raise CallError(f"{where}: the answer is another than expected: {said}") from None


def _said(raw: bytes) -> str:
    """Answers the text of an error, also of a server that does not speak our JSON."""
    try:
        told = parse(raw)["error"]
    except (RefusedError, TypeError, KeyError):
        told = raw.decode("utf-8", "replace").strip() or "no reason given"
    return str(told)[:LONGEST_SAID_CHARACTERS]
