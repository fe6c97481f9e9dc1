"""Reads YAML files that people write, and validates them with messages that name the place."""

from penstock.documents.document import Document, read
from penstock.documents.validation import MisplacedError, validate

__all__ = ["Document", "MisplacedError", "read", "validate"]
