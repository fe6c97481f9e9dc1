"""From a file to a job whose parts fit together, without Spark.

The rule: one clear message, with file, line and key, and what to do. What only Spark can know
(columns, types, formats) is checked by ``penstock.spark.check``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock import policy as policies
from penstock.job_file.document import Document, Path_, read
from penstock.job_file.model import EVERY, Job, Query
from penstock.sql import Rewritten, SqlError, rewrite
from penstock.sql import Source as Table
from penstock.types import PenstockError


@dataclass(frozen=True)
class Loaded:
    """A job, its queries rewritten, and the document for messages."""

    job: Job
    document: Document
    queries: Mapping[str, Rewritten]

    @property
    def directory(self) -> Path:
        """What relative paths of sources are relative to: the file's own directory."""
        return Path(self.document.name).parent


def load(path: Path, environment: Mapping[str, str] | None = None) -> Loaded:
    document = read(path, environment)
    if not isinstance(document.data, dict):
        raise document.error((), "expected keys such as 'sources' and 'queries'")
    try:
        job = Job.model_validate(document.data)
    except ValidationError as error:
        raise _told(document, min(error.errors(), key=_spelling_first)) from None
    _check(job, document)
    return Loaded(job, document, {name: _rewritten(job, name, document) for name in job.queries})


def view(query: str, source: str) -> str:
    """The name of a source as a query sees it, gated."""
    return f"{query}:{source}"


def _check(job: Job, document: Document) -> None:
    try:
        policies.get(job.policy)
    except PenstockError as error:
        raise document.error(("policy",), str(error)) from None
    for name, query in job.queries.items():
        if query.ceiling is not None and query.ceiling < query.floor:
            raise document.error(("queries", name, "ceiling"), "lies below the floor")
        for source in query.strata:
            if source not in (EVERY, *job.sources):
                message = f"unknown source {source!r}; {_hint(source, job.sources)}"
                raise document.error(("queries", name, "strata", source), message)


def _rewritten(job: Job, name: str, document: Document) -> Rewritten:
    query, path = job.queries[name], ("queries", name, "sql")
    tables = {
        source: Table(view(name, source), given.event_time, not given.static)
        for source, given in job.sources.items()
    }
    try:
        found = rewrite(query.sql, tables, confidence=query.bounds, one_to_one=query.one_to_one)
        _fits(query, found)
    except SqlError as error:
        raise document.error(path, str(error), error.line) from None
    return found


def _fits(query: Query, found: Rewritten) -> None:
    """What Spark would refuse only once the query runs."""
    if (found.order or found.limit is not None) and query.mode != "complete":
        raise SqlError("ORDER BY and LIMIT: a stream has a first row only with mode: complete")
    if found.aggregated and query.mode == "append" and not found.windowed:
        raise SqlError(
            "an aggregate without a window never ends: GROUP BY window(time, '1 minute'), "
            "or say mode: complete"
        )
    if not found.aggregated and query.mode == "complete":
        raise SqlError("mode: complete keeps whole results; this query has no aggregate")


# --- messages ------------------------------------------------------------------------------------


def _spelling_first(error: ErrorDetails) -> bool:
    """A key that is misspelt is also missing; the first is what to say."""
    return error["type"] != "extra_forbidden"


def _told(document: Document, error: ErrorDetails) -> PenstockError:
    """What pydantic found, in words for people."""
    path, kind = error["loc"], error["type"]
    if kind == "extra_forbidden":
        known = _keys(path[:-1])
        return document.error(path, f"unknown key; {_hint(str(path[-1]), known)}")
    if kind == "missing":
        return document.error(path[:-1], f"{path[-1]!r} is missing")
    if kind == "value_error":
        said = str(error["ctx"]["error"])  # without what a variable of the environment holds
        written = document.place(path).written
        if written is not None and isinstance(error["input"], str):
            said = said.replace(repr(error["input"]), repr(written))
        return document.error(path, said)
    expected = _EXPECTED.get(kind)
    if expected is None:
        expected = error["msg"].removeprefix("Input should be ")
    return document.error(path, f"expected {expected}, found {_found(document, path)}")


_EXPECTED = {
    "string_type": "a text",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "list_type": "a list",
    "too_short": "at least one",
}


def _found(document: Document, path: Path_) -> str:
    place = document.places.get(path)
    if place is None or place.written is None:
        data: Any = document.data
        for part in path:
            data = data.get(part, "") if isinstance(data, dict) else data
        kind = "a list" if isinstance(data, list) else "keys with values"
        return kind if data else "none"
    return repr(place.written) if place.written else "nothing"


def _keys(path: Path_) -> list[str]:
    """What may stand in this place."""
    model: Any = Job
    for part in path:
        model = _inner(model, part)
    return [field.alias or name for name, field in model.model_fields.items()]


def _inner(model: Any, part: str | int) -> Any:
    """The model of what stands below a key, or in a list or a mapping."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        model = model.model_fields[str(part)].annotation
        options = [kind for kind in get_args(model) if kind is not type(None)]
        return options[0] if len(options) == 1 and type(None) in get_args(model) else model
    return get_args(model)[-1]


def _hint(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
