"""Who may call a site or the oracle, and how often; nothing here has a clock."""

import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from threading import Lock

from penstock.errors import PenstockError
from penstock.federation.refusals import Reason, Refusals, RefusedError
from penstock.federation.site_file import is_loopback

LOCAL_CALLER = "local"
"""The name of whoever calls from this machine, where no token is asked for."""
READER = "reader"
"""The name of whoever gives no token and may look all the same, where ``readers`` says so."""
CALLER_RATE_PER_SECOND = 200.0
"""A coordinator of 200 queries says each second to a site what all of them are worth."""
CALLER_BURST = 1000.0
STRANGER_RATE_PER_SECOND = 10.0
"""Of requests without a good token, by the address that they come from."""
STRANGER_BURST = 100.0
MOST_STRANGERS = 1000
"""How many addresses are remembered; one that is forgotten may begin anew."""
_PORT = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Says how many requests a second are let in for long, and how many at once."""

    per_second: float
    burst: float


USUAL_CALLER_LIMIT = RateLimit(CALLER_RATE_PER_SECOND, CALLER_BURST)
USUAL_STRANGER_LIMIT = RateLimit(STRANGER_RATE_PER_SECOND, STRANGER_BURST)


class Rates:
    """Counts requests by name, in a bucket of tokens each; the time is an argument."""

    def __init__(self, limit: RateLimit, most_names: int = MOST_STRANGERS) -> None:
        self._limit = limit
        self._most_names = most_names
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each name how many requests were left, and when; the latest last."""

    def allow(self, name: str, now: float) -> bool:
        """Says whether one more request of a name is let in, and counts it if so."""
        left, before = self._buckets.pop(name, (self._limit.burst, now))
        gained = max(0.0, now - before) * self._limit.per_second
        left = min(self._limit.burst, left + gained)
        allowed = left >= 1.0
        self._buckets[name] = (left - allowed, now)
        if len(self._buckets) > self._most_names:
            self._buckets.popitem(last=False)
        return allowed


class Access:
    """Knows by their tokens who may call, and refuses everybody else.

    It keeps no token: only digests of them under a key of its own. A token that is given is
    compared with all of them, so that the time it takes tells neither how much of a token was
    right nor whose it was like. With ``readers`` it lets in, as ``READER``, whoever shows no token:
    they may look, and the application refuses them everything else.
    """

    def __init__(
        self,
        accepts: Mapping[str, str],
        host: str,
        *,
        readers: bool = False,
        caller_limit: RateLimit = USUAL_CALLER_LIMIT,
        stranger_limit: RateLimit = USUAL_STRANGER_LIMIT,
    ) -> None:
        if not accepts and not is_loopback(host):
            raise PenstockError(
                f"'host' must be an address of this machine alone, such as 127.0.0.1, where "
                f"'accepts' names nobody with a token; got {host!r}"
            )
        self.refusals = Refusals()
        self._key = secrets.token_bytes(32)
        self._digests = {name: self._digest(token) for name, token in accepts.items()}
        if len(set(self._digests.values())) < len(self._digests):
            raise PenstockError("'accepts' must have a token of its own for each name")
        self._readers, self._loopback = readers, is_loopback(host)
        self._callers = Rates(caller_limit, len(accepts) + 1)
        self._strangers = Rates(stranger_limit)
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Access({', '.join(self._digests) or 'this machine'})"

    def caller(self, authorization: str | None, host: str, address: str, now: float) -> str:
        """Answers who calls, by the header of that name; raises a refusal.

        ``host`` is the header of that name, ``address`` where the request comes from.
        """
        name = self._name(authorization) if self._digests else _local(host)
        if authorization is None and name is None and self._is_reader(host):
            name = READER
        with self._lock:
            known = name is not None and self._callers.allow(name, now)
            many = not known and (name is not None or not self._strangers.allow(address, now))
        if many:
            raise RefusedError(Reason.TOO_MANY, "too many requests; wait a second")
        if name is None:
            raise self._stranger()
        return name

    def _is_reader(self, host: str) -> bool:
        """On this machine alone, a reader has to call it by its own name, as ``_local`` says."""
        return self._readers and (not self._loopback or _local(host) is not None)

    def _stranger(self) -> RefusedError:
        if self._digests:
            return RefusedError(Reason.BAD_TOKEN, "needs 'Authorization: Bearer TOKEN'")
        return RefusedError(Reason.FORBIDDEN, "only this machine may call, by its own address")

    def _name(self, authorization: str | None) -> str | None:
        scheme, _, token = (authorization or "").partition(" ")
        given = self._digest(token)
        found = None
        for name, digest in self._digests.items():
            if hmac.compare_digest(digest, given):
                found = name  # and on, since to stop here would tell names apart
        return found if scheme.lower() == "bearer" else None

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode("utf-8", "replace"), "sha256")


def _local(host: str) -> str | None:
    """Lets a request in that calls this machine by one of its own names.

    Otherwise a web page that is open here could have its own name point to this machine, and call.
    """
    name = (host.rpartition(":")[0] if _PORT.search(host) else host).strip("[]")
    try:
        here = name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        here = False
    return LOCAL_CALLER if here else None
