"""Reads where metrics are to be served: a port of this machine, or an address and a port."""

from penstock.errors import PenstockError

LOOPBACK = "127.0.0.1"
"""Metrics say nothing of what is in tuples, but names of queries; still nobody else reads them
unless the user says so."""


def place(given: int | str, name: str = "metrics") -> tuple[str, int]:
    """Answers the host and the port; port 0 takes a free one.

    >>> place(9464), place("9464"), place("0.0.0.0:9464"), place("[::1]:0")
    (('127.0.0.1', 9464), ('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 0))
    """
    host, _, port = str(given).rpartition(":")
    if isinstance(given, bool) or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise PenstockError(
            f"{name} must be a port, such as 9464, or an address and a port, such as "
            f"'0.0.0.0:9464'; got {given!r}"
        )
    return host.strip("[]") or LOOPBACK, int(port)
