"""Reads a YAML document and remembers the line of everything in it.

PyYAML's nodes know their lines, and plain loading forgets them. Secrets come from the environment:
``${NAME}`` stands for a variable anywhere in a text, ``${NAME:-default}`` for one that may be
missing, and ``$${`` for ``${`` itself. Messages show what is written in the file, never what a
variable holds.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import PenstockError

Path_ = tuple[str | int, ...]
MOST_BYTES = 1_000_000
"""Of a file. People write none that is larger, and reading one takes seconds."""
MOST_VALUES = 100_000
"""Of a file. Aliases of aliases can make any number of values of a few lines."""
MOST_LETTERS = 600
"""Of a message; what it repeats of the file may be of any length."""
_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)?(?::-([^}]*))?\}")


@dataclass
class WrittenPlace:
    """Says where something stands in the file; lines count from 1.

    ``written`` is its text with the names of variables, not with what they hold.
    """

    line: int
    text_line: int
    """The first line of a text that stands below its key, as SQL does."""
    written: str | None = None


@dataclass
class Document:
    """Holds what a file says, as plain data, and where it says it."""

    name: str
    data: Any = None
    places: dict[Path_, WrittenPlace] = field(default_factory=dict)

    def error(self, path: Path_, message: str, line: int | None = None) -> PenstockError:
        """Makes an error with file, line and key; ``line`` counts within the text at ``path``."""
        place = self.place(path)
        number = place.line if line is None else place.text_line + line - 1
        key = dotted(path)
        return PenstockError(
            f"{self.name}:{number}: {_shown(key) + ': ' if key else ''}{_shown(message)}"
        )

    def place(self, path: Path_) -> WrittenPlace:
        """Finds where something stands, or the nearest key above what is missing."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, WrittenPlace(1, 1))


def dotted(path: Path_) -> str:
    """Writes a path as people do, such as ``queries.fares.strata[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def _shown(text: str) -> str:
    """Makes one short line of a text that may hold anything."""
    if len(text) > MOST_LETTERS:
        text = f"{text[: MOST_LETTERS // 2]} ... {text[-MOST_LETTERS // 2 :]}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def read(path: Path, environment: Mapping[str, str] | None = None) -> Document:
    """Reads a file; variables come from ``environment``, or from that of the process."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode()
    except OSError as error:
        raise PenstockError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PenstockError(f"{path}: this is not text in UTF-8") from None
    if len(raw) > MOST_BYTES:
        raise PenstockError(f"{path}: the file must have at most {MOST_BYTES:,} bytes")
    return parse(text, str(path), os.environ if environment is None else environment)


def parse(text: str, name: str, environment: Mapping[str, str]) -> Document:
    """Reads a text; ``name`` stands for it in messages."""
    document = Document(name)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise PenstockError(f"{name}: the file is empty")
        document.data = _Walk(document, environment, yaml.SafeLoader("")).value(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise PenstockError(f"{name}{line}: this is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        said = str(error).partition("\n")[0]
        raise PenstockError(f"{name}: this is not YAML: {said}") from None
    except RecursionError:
        raise PenstockError(f"{name}: nested far too deeply, or an alias of itself") from None
    return document


@dataclass
class _Walk:
    document: Document
    environment: Mapping[str, str]
    loader: yaml.SafeLoader
    values: int = 0

    def value(self, node: yaml.Node, path: Path_) -> Any:
        self.values += 1
        if self.values > MOST_VALUES:
            raise self.document.error(
                path, f"more than {MOST_VALUES:,} values; an alias of aliases makes so many"
            )
        line = node.start_mark.line + 1
        place = self.document.places.setdefault(path, WrittenPlace(line, line))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        place.text_line = line + (node.style in ("|", ">"))
        place.written = str(node.value)
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            inner = (*path, key)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag.endswith(":merge"):
                raise self.document.error(path, "expected plain keys")
            line = key_node.start_mark.line + 1
            if key in found:
                self.document.places[inner] = WrittenPlace(line, line)
                raise self.document.error(inner, "this key is given twice")
            self.document.places[inner] = WrittenPlace(line, line)
            found[key] = self.value(value_node, inner)
        return found

    def _scalar(self, node: yaml.ScalarNode, path: Path_) -> Any:
        if "${" not in node.value:
            return self.loader.construct_object(node)

        def replaced(match: re.Match[str]) -> str:
            escaped, name, default = match.groups()
            if escaped or not name:
                return match[0].removeprefix("$")
            if name not in self.environment and default is None:
                raise self.document.error(path, f"the environment has no variable {name}")
            return self.environment.get(name, default or "")

        return _VARIABLE.sub(replaced, node.value)
