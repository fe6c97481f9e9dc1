"""Reads JSON from strangers: what is doubtful in it is refused, not guessed at."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.federation.refusals import Reason, RefusedError

DEEPEST_NESTING = 16
LONGEST_NUMBER_CHARACTERS = 40
LARGEST_INTEGER = 2**53
"""Above it, numbers of JSON do not mean the same to everybody (RFC 8259, section 6)."""
LONGEST_COMPLAINT_CHARACTERS = 300

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
Fitted = TypeVar("Fitted", bound=BaseModel)


def parse(raw: bytes) -> Any:
    """Makes data of JSON; raises a refusal where it is broken, doubtful, or out of proportion.

    >>> parse(b'{"sic": 0.5}')
    {'sic': 0.5}
    >>> parse(b'{"sic": NaN}')
    Traceback (most recent call last):
        ...
    penstock.federation.refusals.RefusedError: this is not JSON: NaN is no number
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _broken("it is not UTF-8") from None
    if _depth(text) > DEEPEST_NESTING:
        raise _broken("it is nested too deeply")
    try:
        data = json.loads(
            text,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_finite,
            object_pairs_hook=_once_each,
        )
    except json.JSONDecodeError as error:
        raise _broken(f"{error.msg} (character {error.pos})") from None
    if _HALF_CHARACTER.search(text):
        _check_characters(data)
    return data


def fit(model: type[Fitted], data: Any) -> Fitted:
    """Makes a message of data, without converting types; raises a refusal of the first mistake."""
    try:
        return model.model_validate(data, strict=True)
    except ValidationError as error:
        raise RefusedError(Reason.BAD_MESSAGE, complaint(error.errors(include_url=False))) from None


def complaint(errors: Iterable[ErrorDetails]) -> str:
    """Says in a line what does not fit, without repeating what was sent."""
    first = next(iter(errors))
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    text = f"{place or 'the message'}: {first['msg']}"
    return text.encode("utf-8", "replace").decode()[:LONGEST_COMPLAINT_CHARACTERS]


def _broken(why: str) -> RefusedError:
    return RefusedError(Reason.BAD_JSON, f"this is not JSON: {why}")


def _depth(text: str) -> int:
    """Counts how deeply lists and objects are nested, without going down into them."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _no_constant(name: str) -> Any:
    raise _broken(f"{name} is no number")


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER_CHARACTERS or abs(int(digits)) > LARGEST_INTEGER:
        raise _broken("a whole number is too large")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _broken("a number is too large")
    return number


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _broken("a key is given twice")
    return found


def _check_characters(data: Any) -> None:
    """Refuses halves of characters, which can be written in JSON and nowhere else."""
    try:
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _broken("a text has half a character in it") from None
