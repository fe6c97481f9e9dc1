"""Says how fragments are called outside of their query."""

import re

from penstock.federation.query_file import NAME_PATTERN

_NAME = NAME_PATTERN.strip("^$")
FRAGMENT_ID_PATTERN = f"^{_NAME}@{_NAME}(@[1-9])?$"
"""Of ``fragment@query`` and ``fragment@query@replica``; names hold no '@'."""
_FRAGMENT_ID = re.compile(FRAGMENT_ID_PATTERN)


def fragment_id(fragment: str, query: str, replica: int = 0) -> str:
    """Names a running fragment: ``fragment@query``, or ``fragment@query@1`` for its second replica.

    >>> fragment_id("root", "load"), fragment_id("root", "load", 1)
    ('root@load', 'root@load@1')
    """
    return f"{fragment}@{query}" + (f"@{replica}" if replica else "")


def parts_of(identity: str) -> tuple[str, str, int] | None:
    """Answers fragment, query and replica of an id, or None where it is none.

    >>> parts_of("root@load@1"), parts_of("../root@load")
    (('root', 'load', 1), None)
    """
    if _FRAGMENT_ID.fullmatch(identity) is None:
        return None
    fragment, query, *replica = identity.split("@")
    return fragment, query, int(replica[0]) if replica else 0
