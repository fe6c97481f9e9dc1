"""Says what may stand in the file of a federated query, and reads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.documents import Document, read, validate
from penstock.jobs.model import (
    USUAL_LATENESS_SECONDS,
    Duration,
    JobFilePart,
    Lateness,
    SinkEntry,
    confidence_of,
)

ANY_SITE = "any"
"""Stands where the oracle's ranking decides which site runs a fragment."""
ROOT = "root"
"""The name of the fragment that has the result."""
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Of queries, fragments, sites and sources; they become names of files and parts of addresses."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Ranking = Literal["least-loaded", "round-robin", "highest-sic"]


class FragmentEntry(JobFilePart):
    """Describes a fragment that is written out.

    Its SQL reads sources of its site by their names, and other fragments by theirs.
    """

    sql: Annotated[str, Field(max_length=20_000)]
    site: Name = ANY_SITE
    time: Annotated[str | None, Field(max_length=200)] = None
    """The column of its result that is its event time for whoever reads it; the first timestamp
    unless told."""


class PartitionEntry(JobFilePart):
    """Asks for copies of the merging fragment, each with a part of the groups (thesis, 4.4.2)."""

    copies: Annotated[int, Field(ge=2, le=64)]
    by: Annotated[str, Field(max_length=200)]
    """The column of GROUP BY that decides which copy a group belongs to."""


class FederatedQuery(JobFilePart):
    """Describes a query over sources of several sites: one SQL text, or fragments."""

    query: Name
    sql: Annotated[str | None, Field(max_length=20_000)] = None
    fragments: Annotated[dict[Name, FragmentEntry], Field(max_length=64)] | None = None
    shape: Literal["tree", "chain"] = "tree"
    """Whether partial results go to the root at once, or from site to site."""
    place: Annotated[dict[Name, Name], Field(max_length=64)] = Field(default_factory=dict)
    """A site, or a way to choose one, for fragments whose place does not follow from sources."""
    replicas: Annotated[dict[Name, Annotated[int, Field(ge=1, le=3)]], Field(max_length=1)] = Field(
        default_factory=dict
    )
    partition: PartitionEntry | None = None
    watermark: Lateness = USUAL_LATENESS_SECONDS
    """How late the partial results of a site may be, in event time."""
    interval: Duration | None = None
    """The trigger of its fragments, where it differs from that of their sites."""
    weight: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    bounds: Annotated[float | None, BeforeValidator(confidence_of)] = None
    """The confidence of the intervals around estimates; ``true`` is 95 %."""
    sink: SinkEntry = SinkEntry()

    @model_validator(mode="after")
    def _one_form(self) -> "FederatedQuery":
        if (self.sql is None) == (self.fragments is None):
            raise ValueError("expected 'sql', which Penstock splits, or 'fragments'; one of both")
        if self.fragments is not None and ROOT not in self.fragments:
            raise ValueError(f"'fragments' needs one of the name {ROOT!r}, which has the result")
        if set(self.replicas) - {ROOT}:
            raise ValueError(f"'replicas' can be given for {ROOT!r}, such as {{root: 2}}")
        return self


def load_query(
    path: Path, environment: Mapping[str, str] | None = None
) -> tuple[FederatedQuery, Document]:
    """Reads the file of a query; raises the first mistake with its place."""
    document = read(path, environment)
    if not isinstance(document.data, dict):
        raise document.error((), "expected keys such as 'query' and 'sql'")
    return validate(document, FederatedQuery), document
