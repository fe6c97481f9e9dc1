"""Shares as people write them: 0.05, '0.05' or '5 %'."""

from penstock.types import PenstockError


def as_share(name: str, value: float | str) -> float:
    """
    >>> as_share("keep", "5 %"), as_share("keep", 0.25)
    (0.05, 0.25)
    """
    text = str(value).strip()
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise PenstockError(f"{name}: {value!r} is no share such as '5%'") from None
