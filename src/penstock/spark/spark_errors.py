"""Says what Spark complains of in one line, with a suggestion where there is one."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from penstock.hints import hint
from penstock.spark.gate.columns import SIC, WEIGHT

_RAISED = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")
"""How the line of a traceback begins that says what was raised."""


def told(error: PySparkException) -> str:
    """Returns what an error says in one line, without Spark's codes and positions."""
    parameters: Mapping[str, str] = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        column = _bare(parameters.get("objectName") or parameters.get("fieldName") or "?")
        offered = [_bare(name) for name in re.findall(r"`[^,]+`", parameters.get("proposal", ""))]
        return f"unknown column {column!r}; {column_hint(column, offered)}"
    text = str(error).strip()
    if isinstance(error, ParseException | AnalysisException):
        text = text.partition("\n\n")[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+|; line \d+ pos \d+", "", text).partition(";\n")[0]
    return " ".join(text.split())


def why_failed(error: Exception) -> str:
    """Returns in a line why a streaming query ended.

    Of an error that Python raised, Spark tells the whole traceback, whose last line says it.

    >>> why_failed(Exception(
    ...     "[STREAM_FAILED] Query [id = 1] terminated with exception: [X] Return Message: "
    ...     "Traceback (most recent call last):\\n  File\\nOSError: it is full\\n\\n"
    ...     "=== Streaming Query ==="
    ... ))
    'OSError: it is full'
    """
    text = str(error).partition("=== Streaming Query")[0].strip()
    text = text.partition("terminated with exception: ")[2] or text
    if "Traceback (most recent call last)" in text:
        lines = [line.strip() for line in text.splitlines() if _RAISED.match(line.strip())]
        text = lines[-1] if lines else text
    return " ".join(text.split())


@contextmanager
def unlogged() -> Iterator[None]:
    """Keeps PySpark from logging an error that is an answer; it logs those that are caught, too."""
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _bare(name: str) -> str:
    return name.replace("`", "").rpartition(".")[2]


def column_hint(name: str, known: list[str]) -> str:
    """Suggests columns of the user's, and none that a gate adds."""
    return hint(name, [column for column in known if column not in (WEIGHT, SIC)])


def line_of(sql: str, error: PySparkException) -> int | None:
    """Returns the line of a query that has the name of which Spark complains."""
    name = _bare((error.getMessageParameters() or {}).get("objectName", ""))
    lines = [number for number, line in enumerate(sql.split("\n"), 1) if name and name in line]
    return lines[0] if lines else None
