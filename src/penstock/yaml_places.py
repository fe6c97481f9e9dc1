"""YAML that remembers where everything stands, so that a mistake is told with its line."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from penstock.types import PenstockError

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[Hashable, ...]
"""Keys and list positions from the top of the document."""


@dataclass
class Document:
    """The plain value of a YAML text, and the line of each key and item in it."""

    name: str
    value: Any
    lines: dict[Place, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Document":
        try:
            text = path.read_text()
        except OSError as error:
            raise PenstockError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise PenstockError(f"{path}: this is not text in UTF-8") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str) -> "Document":
        document = cls(name, None)
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is None:
                raise PenstockError(f"{name}: the file is empty")
            document._note(node, (), node.start_mark.line + 1)
            document.value = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
            raise PenstockError(f"{name}{line}: {error.problem}") from None
        except yaml.YAMLError as error:
            raise PenstockError(f"{name}: {error}") from None
        return document

    def _note(self, node: yaml.Node, place: Place, line: int) -> None:
        self.lines[place] = line
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here, at = (*place, key.value), key.start_mark.line + 1
                if here in self.lines:
                    first, self.lines[here] = self.lines[here], at
                    raise self.error(here, f"is given twice (first in line {first})")
                self._note(value, here, at)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self._note(item, (*place, number), item.start_mark.line + 1)

    def error(self, place: Place, problem: str) -> PenstockError:
        """One sentence: file, line, key, what is wrong."""
        known = place
        while known not in self.lines and known:
            known = known[:-1]
        key = _dotted(place)
        return PenstockError(
            f"{self.name}, line {self.lines.get(known, 1)}: {key + ': ' if key else ''}{problem}"
        )

    def fit(self, model: type[Model]) -> Model:
        """The value as this model, or an error about the first thing that does not fit."""
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            found = error.errors()
            # an unknown key explains a missing one better than the other way round
            first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
            place = self._place(first["loc"])
            cause = first.get("ctx", {}).get("error")
            if isinstance(cause, MisplacedError):
                raise self.error((*place, *cause.place), str(cause)) from None
            if first["type"] == "extra_forbidden":
                raise self.error(place, _unknown(place[-1], _fields(model, place[:-1]))) from None
            raise self.error(place, _plain(first["type"], first["msg"])) from None

    def _place(self, location: Place) -> Place:
        """Without the names of unions' branches, which a reader has not written."""
        place: Place = ()
        for number, part in enumerate(location):
            if (*place, part) in self.lines or number == len(location) - 1:
                place = (*place, part)
        return place if place in self.lines or _is_key(place[-1:]) else place[:-1]


class MisplacedError(ValueError):
    """A value that does not go with others; ``place`` leads to it from where it was noticed."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def _is_key(last: Place) -> bool:
    return bool(last) and isinstance(last[0], str) and last[0].replace("_", "").isalpha()


def _unknown(key: Hashable, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(str(key), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
    return f"unknown key; {hint}"


def _fields(model: type[BaseModel], place: Place) -> list[str]:
    """The keys that the model at this place has."""
    for part in place:
        if isinstance(part, str):
            found = _model_in(model.model_fields[part].annotation)
            if found is None:
                return []
            model = found
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        if found := _model_in(part):
            return found
    return None


def _dotted(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _plain(kind: str, message: str) -> str:
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return "expected keys with values here"
    if kind == "missing":
        return "is missing"
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if not message[:2].isupper() else message
