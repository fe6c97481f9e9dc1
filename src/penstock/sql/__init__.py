"""Rewrites SQL over gated streams; it is pure, and Spark runs what comes out."""

from penstock.sql.grammar import SqlError
from penstock.sql.relations import Source
from penstock.sql.rewrite import Column, Rewritten, rewrite

__all__ = ["Column", "Rewritten", "Source", "SqlError", "rewrite"]
