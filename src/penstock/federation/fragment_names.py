"""Finds names for fragments that nobody has named."""

from zlib import crc32

MOST_LETTERS = 64
"""Of a name, as in ``NAME_PATTERN``."""


class Names:
    """Gives each fragment of a query a name of its own, and the same ones each time."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = {name.lower() for name in taken}

    def new(self, wanted: str) -> str:
        """Returns the name that is wanted, or one like it."""
        name, number = shortened(wanted), 1
        while name.lower() in self.taken:
            number += 1
            name = shortened(f"{wanted}-{number}")
        self.taken.add(name.lower())
        return name


def shortened(name: str) -> str:
    """Returns a name that is not too long, and differs where names differ.

    >>> shortened("rome-relay"), len(shortened("r" * 90))
    ('rome-relay', 64)
    """
    if len(name) <= MOST_LETTERS:
        return name
    end = f"-{crc32(name.encode()):08x}"
    return name[: MOST_LETTERS - len(end)] + end
