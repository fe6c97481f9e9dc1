"""YAML files of people: read with the place of everything, fitted to a model, errors with both."""

from penstock.documents.document import Document, read
from penstock.documents.validation import MisplacedError, validate

__all__ = ["Document", "MisplacedError", "read", "validate"]
