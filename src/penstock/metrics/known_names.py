"""Bounds how many values a label has: who collects metrics keeps a series for each of them."""

from threading import Lock

OTHERS = "_others"
"""The label of all that came when there were enough already; no query can have that name."""


class KnownNames:
    """Gives the first names that come a label of their own, for good, and the others one together.

    >>> names = KnownNames(2)
    >>> [names.label(name) for name in ("fares", "tips", "delays", "fares")]
    ['fares', 'tips', '_others', 'fares']
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = Lock()

    def label(self, name: str) -> str:
        """Answers the label of a name."""
        with self._lock:
            if name not in self._known and len(self._known) < self._most:
                self._known.add(name)
            return name if name in self._known else OTHERS
