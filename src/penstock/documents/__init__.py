"""YAML files of people: read with the place of everything, fitted to a model, errors with both."""

from penstock.documents.document import Document, Path_, dotted, parse, read
from penstock.documents.fit import MisplacedError, fit, hint

__all__ = ["Document", "MisplacedError", "Path_", "dotted", "fit", "hint", "parse", "read"]
