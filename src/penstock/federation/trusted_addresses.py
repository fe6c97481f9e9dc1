"""Says whom a site may call with its token: addresses come in orders, and anybody may write these.

An address is trusted if the oracle lists a site there. Where a site knows no oracle, only addresses
of this machine are.
"""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from penstock.errors import PenstockError
from penstock.federation.oracle_client import OracleClient
from penstock.federation.site_file import SiteFile, is_loopback

SHORTEST_REFRESH_SECONDS = 5.0
"""So long does it not ask the oracle again."""


class TrustedAddresses:
    """Remembers where the oracle has seen sites."""

    def __init__(self, file: SiteFile, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = file, clock
        self._known: set[str] = set()
        self._asked: float | None = None

    def check(self, address: str) -> None:
        """Raises where a site may not be called with the token of this one."""
        if self._file.token is None:
            return
        if self._file.tls is not None and not address.startswith("https://"):
            raise PenstockError(f"{address} is not called, since it has no TLS and this site has")
        if self._file.oracle is None:
            if not is_loopback(urlsplit(address).hostname or ""):
                raise PenstockError(f"{address} is not called: without an oracle nobody knows it")
            return
        if address not in self._known:
            self._ask(self._file.oracle)
        if address not in self._known:
            raise PenstockError(f"{address} is not called: the oracle lists no site there")

    def _ask(self, oracle: str) -> None:
        now = self._clock()
        if self._asked is not None and now - self._asked < SHORTEST_REFRESH_SECONDS:
            return
        self._asked = now
        client = OracleClient(oracle, self._file.token, self._file.tls)
        try:
            self._known |= {site.address.rstrip("/") for site in client.sites()}
        finally:
            client.close()
