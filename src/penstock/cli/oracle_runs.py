"""Runs the oracle in the foreground, and says when it listens."""

import signal
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from penstock.cli.interrupt import Interrupt
from penstock.cli.until_eof import end_with_parent
from penstock.dashboard.what_is_seen import page_of
from penstock.documents import read
from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.history import History
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_server import oracle_app
from penstock.federation.serving import ServedApp
from penstock.federation.site_file import TOKEN_CHARACTERS, CertificateEntry, Token

HISTORY_FILE = "history.sqlite"
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class OracleOptions:
    """Holds what the command line says of an oracle."""

    host: str
    port: int
    directory: Path
    tokens: Path | None = None
    certificate: str | None = None
    key: str | None = None
    until_eof: bool = False
    readers: bool = False


def run_oracle(options: OracleOptions) -> int:
    """Runs the oracle until it is interrupted, and returns the exit code."""
    access = Access(tokens_of(options.tokens), options.host, readers=options.readers)
    tls = None
    if options.certificate is not None and options.key is not None:
        tls = CertificateEntry(certificate=options.certificate, key=options.key)
    interrupt = Interrupt()
    with interrupt.installed(), closing(_history(options.directory)) as history:
        if options.until_eof:
            end_with_parent()
        oracle = Oracle()
        live, page = page_of(oracle, history)
        app = oracle_app(oracle, history, access, page)
        with ServedApp(app, access.refusals, options.host, options.port, tls, live.stop) as served:
            print(f"oracle: listens on {served.address}; Ctrl-C ends it", flush=True)
            with suppress(KeyboardInterrupt):
                while True:
                    interrupt.pause(POLL_SECONDS)
    return 128 + (interrupt.number or signal.SIGINT)


def _history(directory: Path) -> History:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(
            f"--directory must be a directory, such as oracle; got {str(directory)!r}: "
            f"{error.strerror}"
        ) from None
    return History(directory / HISTORY_FILE)


def tokens_of(path: Path | None) -> dict[str, str]:
    """Reads who may call, each with a token; no message shows one."""
    if path is None:
        return {}
    document = read(path)
    try:
        return TypeAdapter(dict[str, Token]).validate_python(document.data)
    except ValidationError as error:
        place = tuple(error.errors()[0]["loc"])
        raise document.error(
            place,
            f"expected names, each with a token of {TOKEN_CHARACTERS[0]} characters or more",
        ) from None
