"""Says what may stand in the file of a site of a federation, and reads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from penstock.core.settings import check_timing
from penstock.documents import Document, read, validate
from penstock.federation.query_file import Name
from penstock.jobs.model import Duration, JobFilePart, Option, QueryEntry, Share, SourceEntry

USUAL_POLICY = "balance-sic-paid"
"""What other sites have paid for is dropped last."""
TOKEN_CHARACTERS = range(16, 257)


def _token(value: Any) -> str:
    """Refuses what is no token without repeating it, as pydantic would."""
    if not isinstance(value, str) or len(value) not in TOKEN_CHARACTERS:
        raise ValueError("expected a token of 16 to 256 characters")
    return value


Token = Annotated[str, BeforeValidator(_token)]


class LendingEntry(JobFilePart):
    """Says what a site gives to queries that are not its own."""

    capacity: Share = 1.0
    """The share of its capacity that they may have while its own queries want more."""
    sources: list[Name] | None = None
    """The sources that they may read; all of them unless told."""
    fragments: Annotated[int, Field(ge=0)] = 64
    """How many of their fragments it runs at most: each costs it something in every batch, however
    little it admits."""


class RefusalEntry(JobFilePart):
    """Names the queries and the submitters from whom a site takes nothing."""

    queries: list[str] = Field(default_factory=list)
    submitters: list[str] = Field(default_factory=list)


class CertificateEntry(JobFilePart):
    """Names the files of TLS certificates."""

    certificate: str
    key: str
    authority: str | None = None
    """Whose certificates are believed when this site calls others."""


class SiteFile(JobFilePart):
    """Is a whole site file."""

    site: Name
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 takes a free one."""
    address: str | None = None
    """Where others reach it, if that is not host and port, such as https://rome.example:7101."""
    oracle: str | None = None
    """The address of the oracle, such as http://127.0.0.1:7100."""
    directory: str
    """Where the site keeps its ledger, its checkpoints, and the fragments that it runs."""
    links: str | None = None
    """The directory of links, which all sites of a federation share; below ``directory`` unless
    told."""
    brokers: str | None = None
    """Kafka's bootstrap servers; then links are topics."""
    interval: Duration = 2.0
    latency: Duration | None = None
    stw: Duration | None = None
    policy: str = USUAL_POLICY
    headroom: Annotated[float, Field(gt=0, le=1)] = 0.9
    token: Annotated[Token | None, Field(repr=False)] = None
    """With which this site calls others."""
    accepts: dict[str, Token] = Field(default_factory=dict, repr=False)
    """Who may call: submitters, sites and the oracle, each with a token."""
    readers: bool = False
    """Whether whoever gives no token may look all the same; nobody changes anything without."""
    operators: list[str] = Field(default_factory=list)
    """Names in ``accepts`` that may change the terms of any query here, and the latency."""
    lends: LendingEntry = LendingEntry()
    refuses: RefusalEntry = RefusalEntry()
    tls: CertificateEntry | None = None
    tells: bool = True
    """Whether its coordinators tell what results are worth; without, to see what that is good
    for (THEMIS, figure 4)."""
    sources: dict[Name, SourceEntry] = Field(default_factory=dict)
    queries: dict[Name, QueryEntry] = Field(default_factory=dict)
    """Its own queries, as in a job file."""
    spark: dict[str, Option] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _safe(self) -> "SiteFile":
        if not is_loopback(self.host) and not self.accepts:
            raise ValueError(
                f"'host' {self.host!r} can be reached from other machines, so 'accepts' must name "
                "who may call, each with a token"
            )
        return self


def is_loopback(host: str) -> bool:
    """Says whether only this machine can reach an address."""
    return host in ("localhost", "::1") or host.startswith("127.")


def load_site(
    path: Path, environment: Mapping[str, str] | None = None
) -> tuple[SiteFile, Document]:
    """Reads the file of a site; raises the first mistake with its place."""
    document = read(path, environment)
    if not isinstance(document.data, dict):
        raise document.error((), "expected keys such as 'site' and 'sources'")
    site = validate(document, SiteFile)
    if wrong := check_timing(site.interval, site.latency, site.stw):
        raise document.error((wrong[0],), wrong[1])
    return site, document
