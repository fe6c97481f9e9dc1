"""Writes YAML as people do: SQL of several lines as a block."""

from typing import Any

import yaml


class _Writer(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and everything in the order that it has."""


def _text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _text)


def to_yaml(data: dict[str, Any]) -> str:
    """Returns the text of a document.

    >>> print(to_yaml({"query": "load", "sql": "SELECT *\\nFROM s\\n"}), end="")
    query: load
    sql: |
      SELECT *
      FROM s
    """
    return str(yaml.dump(data, Dumper=_Writer, sort_keys=False, width=100))
