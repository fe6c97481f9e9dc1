"""What to say of a name that nobody knows."""

from collections.abc import Iterable
from difflib import get_close_matches


def hint(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant, whatever its case, or all that there are."""
    spelt = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), spelt, n=1)
    if close:
        return f"did you mean {spelt[close[0]]!r}?"
    return f"there are {', '.join(spelt.values())}"
