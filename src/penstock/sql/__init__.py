"""SQL in, quality out: queries over gated streams. Pure; Spark runs what comes out of it."""

from penstock.sql.grammar import SqlError
from penstock.sql.relations import Source
from penstock.sql.rewrite import Column, Rewritten, rewrite

__all__ = ["Column", "Rewritten", "Source", "SqlError", "rewrite"]
