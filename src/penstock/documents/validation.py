"""Fits a document to a pydantic model, or says in one message for people what does not fit."""

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.documents.document import Document, Path_
from penstock.errors import PenstockError
from penstock.hints import hint

Model = TypeVar("Model", bound=BaseModel)
_EXPECTED = {
    "string_type": "a text",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "list_type": "a list",
    "too_short": "at least one",
}
"""For each kind of pydantic's errors, what was expected, in words."""
_MEANT = {
    "String should have ": "a text of ",
    "Dictionary should have ": "keys with values, ",
    "List should have ": "a list with ",
    "String should match pattern": "a text of the form",
}
"""How the words begin that pydantic has for other errors, and how ours do."""


class MisplacedError(ValueError):
    """Is raised for a value that does not go with others.

    ``place`` leads to the value from the model that noticed it.
    """

    def __init__(self, place: Path_, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def validate(document: Document, model: type[Model]) -> Model:
    """Makes a model of a document; raises the first mistake with its place in the file."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise _told(document, model, min(error.errors(), key=_spelling_first)) from None


def _spelling_first(error: ErrorDetails) -> bool:
    """Sorts misspelt keys first: the right key is missing, too, but that is not what to say."""
    return error["type"] != "extra_forbidden"


def _told(document: Document, model: type[BaseModel], error: ErrorDetails) -> PenstockError:
    path, kind = _written(document, error["loc"]), error["type"]
    if kind == "extra_forbidden":
        known = _keys(model, path[:-1])
        return document.error(path, f"unknown key; {hint(str(path[-1]), known)}")
    if kind == "missing":
        return document.error(path, f"{error['loc'][-1]!r} is missing")
    if kind == "value_error":
        return _refused(document, path, error)
    expected = _EXPECTED.get(kind) or error["msg"].removeprefix("Input should be ")
    for said, meant in _MEANT.items():
        expected = expected.replace(said, meant)
    if kind.startswith(("greater", "less")):
        expected = f"a number {expected}"
    return document.error(path, f"expected {expected}, found {_found(document, path)}")


def _refused(document: Document, path: Path_, error: ErrorDetails) -> PenstockError:
    """Repeats the words of one of our own rules, without what a variable holds."""
    cause = error["ctx"]["error"]
    if isinstance(cause, MisplacedError):
        return document.error((*path, *cause.place), str(cause))
    said, written = str(cause), document.place(path).written
    if written is not None and isinstance(error["input"], str):
        said = said.replace(repr(error["input"]), repr(written))
    return document.error(path, said)


def _written(document: Document, location: Path_) -> Path_:
    """Drops the names that pydantic gives to branches of a union, which are not in the file."""
    path: Path_ = ()
    for part in location:
        if (*path, part) in document.places:
            path = (*path, part)
    return path


def _found(document: Document, path: Path_) -> str:
    place = document.places.get(path)
    if place is None or place.written is None:
        data: Any = document.data
        for part in path:
            data = data.get(part, "") if isinstance(data, dict) else data
        kind = "a list" if isinstance(data, list) else "keys with values"
        return kind if data else "none"
    return repr(place.written) if place.written else "nothing"


def _keys(model: Any, path: Path_) -> list[str]:
    """Lists the keys that may stand in this place."""
    for part in path:
        model = _inner(model, part)
    return [field.alias or name for name, field in model.model_fields.items()]


def _inner(model: Any, part: str | int) -> Any:
    """Finds the model of what stands below a key, or in a list or a mapping."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        model = model.model_fields[str(part)].annotation
        options = [kind for kind in get_args(model) if kind is not type(None)]
        return options[0] if len(options) == 1 and type(None) in get_args(model) else model
    return get_args(model)[-1]
