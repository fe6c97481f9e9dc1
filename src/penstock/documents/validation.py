"""A document as a pydantic model, or one message in words for people about what does not fit."""

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.documents.document import Document, Path_
from penstock.errors import PenstockError
from penstock.hints import hint

Model = TypeVar("Model", bound=BaseModel)


class MisplacedError(ValueError):
    """A value that does not go with others; ``place`` leads to it from where it was noticed."""

    def __init__(self, place: Path_, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def validate(document: Document, model: type[Model]) -> Model:
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise _told(document, model, min(error.errors(), key=_spelling_first)) from None


def _spelling_first(error: ErrorDetails) -> bool:
    """A key that is misspelt is also missing; the first is what to say."""
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
    if kind.startswith(("greater", "less")):
        expected = f"a number {expected}"
    return document.error(path, f"expected {expected}, found {_found(document, path)}")


def _refused(document: Document, path: Path_, error: ErrorDetails) -> PenstockError:
    """By a rule of ours, in its own words; without what a variable of the environment holds."""
    cause = error["ctx"]["error"]
    if isinstance(cause, MisplacedError):
        return document.error((*path, *cause.place), str(cause))
    said, written = str(cause), document.place(path).written
    if written is not None and isinstance(error["input"], str):
        said = said.replace(repr(error["input"]), repr(written))
    return document.error(path, said)


def _written(document: Document, location: Path_) -> Path_:
    """Without the names of a union's branches, which nobody has written."""
    path: Path_ = ()
    for part in location:
        if (*path, part) in document.places:
            path = (*path, part)
    return path


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
    """What may stand in this place."""
    for part in path:
        model = _inner(model, part)
    return [field.alias or name for name, field in model.model_fields.items()]


def _inner(model: Any, part: str | int) -> Any:
    """The model of what stands below a key, or in a list or a mapping."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        model = model.model_fields[str(part)].annotation
        options = [kind for kind in get_args(model) if kind is not type(None)]
        return options[0] if len(options) == 1 and type(None) in get_args(model) else model
    return get_args(model)[-1]
