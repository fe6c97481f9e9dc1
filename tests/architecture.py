"""Reads a package's source with ``ast`` and answers questions about its structure.

Imports inside of functions count like any other. Imports under ``if TYPE_CHECKING`` are left out:
they do not happen when the program runs, and types may point both ways. A module that is looked up
by its name in a text (``importlib``) is not an import either; that is how the command line finds
its commands.
"""

import ast
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path


@dataclass(frozen=True)
class SourceTree:
    """Holds the modules of one package by dotted name, the package's own name first."""

    package: str
    files: Mapping[str, Path]
    parsed: Mapping[str, ast.Module]

    @classmethod
    def read(cls, directory: Path) -> "SourceTree":
        files = {}
        for path in sorted(directory.rglob("*.py")):
            parts = path.relative_to(directory.parent).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        parsed = {name: ast.parse(path.read_text()) for name, path in files.items()}
        return cls(directory.name, files, parsed)

    def targets(self, module: str) -> set[str]:
        """Every dotted name that a module imports, the imported names included."""
        found = set()
        for node in _running_code(self.parsed[module]):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._base(module, node)
                found |= {f"{base}.{alias.name}" for alias in node.names}
        return found

    def _base(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        is_package = self.files[module].name == "__init__.py"
        parts = module.split(".")
        above = parts[: len(parts) - node.level + is_package]
        return ".".join([*above, *([node.module] if node.module else [])])

    def graph(self) -> dict[str, set[str]]:
        """For each module, the modules of this package that it imports."""
        return {
            name: {found for target in self.targets(name) if (found := self._known(target))}
            - {name}
            for name in self.files
        }

    def _known(self, target: str) -> str | None:
        """The module that a dotted name lies in, if it is one of this package."""
        while target and target not in self.files:
            target = target.rpartition(".")[0]
        return target or None

    def reached(self, room: str) -> set[str]:
        """The modules of a room, and all that are loaded with them, parent packages included."""
        graph = self.graph()
        left = [name for name in self.files if _within(name, f"{self.package}.{room}")]
        seen: set[str] = set()
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                parent = name.rpartition(".")[0]
                left += [*graph[name], *([parent] if parent else [])]
        return seen


def _running_code(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield other
                yield from _running_code(other)
        else:
            yield node
            yield from _running_code(node)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def cycle_of_rooms(tree: SourceTree) -> list[str]:
    """One cycle between first-level packages and top-level modules; empty if there is none."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, targets in tree.graph().items():
        rooms[_room(name)] |= {_room(target) for target in targets} - {_room(name)}
    return _cycle(rooms)


def _room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def cycle_of_modules(tree: SourceTree) -> list[str]:
    """One cycle between modules; empty if there is none."""
    return _cycle(tree.graph())


def _cycle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def forbidden_imports(tree: SourceTree, room: str, forbidden: Collection[str]) -> list[str]:
    """What a room imports, itself or through other modules, and must not."""
    return sorted(
        f"{name} imports {target}"
        for name in tree.reached(room)
        for target in tree.targets(name)
        if any(_within(target, bad) for bad in forbidden)
    )


def imports_into(tree: SourceTree, room: str) -> list[str]:
    """The modules outside of a room that import something of it."""
    package = f"{tree.package}.{room}"
    return sorted(
        f"{name} imports {target}"
        for name, targets in tree.graph().items()
        for target in targets
        if _within(target, package) and not _within(name, package)
    )


def uses_of_words(tree: SourceTree, words: Collection[str], allowed: str) -> list[str]:
    """Where words stand in the code, as names or as whole texts, outside of one allowed module.

    A word with dots is looked for among the imports.
    """
    found = set()
    for name, path in tree.files.items():
        if name == allowed:
            continue
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                plain = token.type == tokenize.NAME
                text = token.string if plain else token.string.strip("\"'")
                if (plain or token.type == tokenize.STRING) and text in words:
                    found.add(f"{name} has {text}")
        found |= {
            f"{name} has {word}"
            for word in words
            for target in tree.targets(name)
            if "." in word and _within(target, word)
        }
    return sorted(found)


def doubled_modules(tree: SourceTree) -> dict[str, list[str]]:
    """The last parts of dotted names that stand for more than one module or package."""
    named: dict[str, list[str]] = defaultdict(list)
    for name in tree.files:
        named[name.rpartition(".")[2]].append(name)
    return {name: places for name, places in named.items() if len(places) > 1}


def doubled_classes(tree: SourceTree) -> dict[str, list[str]]:
    """The public names of classes that more than one module defines at its top level."""
    named: dict[str, list[str]] = defaultdict(list)
    for name, parsed in tree.parsed.items():
        for node in parsed.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named[node.name].append(name)
    return {name: places for name, places in named.items() if len(places) > 1}
