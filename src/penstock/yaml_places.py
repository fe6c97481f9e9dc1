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
                here = (*place, key.value)
                if here in self.lines:
                    raise self.error(here, f"is given twice (first in line {self.lines[here]})")
                self._note(value, here, key.start_mark.line + 1)
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
            first = error.errors()[0]
            place = tuple(part for part in first["loc"] if not _is_branch(part))
            if first["type"] == "extra_forbidden":
                raise self.error(place, _unknown(place[-1], _fields(model, place[:-1]))) from None
            raise self.error(place, _plain(first["msg"])) from None


def _is_branch(part: Hashable) -> bool:
    """Pydantic names the branches of a union in a location; a reader has not written them."""
    return isinstance(part, str) and (part[:1].isupper() or part in BRANCHES or "[" in part)


BRANCHES = ("int", "float", "str", "bool")


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


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if not message[:2].isupper() else message
