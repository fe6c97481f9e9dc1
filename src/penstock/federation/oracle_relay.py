"""Asks sites on behalf of whoever asks the oracle, with the token of whoever asks.

The oracle has no say over a site: each site decides by the token whether it answers or changes
anything, as if it had been asked directly.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Request
from pydantic import Field

from penstock.federation.api import body_of, takes
from penstock.federation.client import CallError, SiteClient
from penstock.federation.inside_messages import (
    LatencyAnswer,
    LatencyChange,
    SiteInside,
    TermsAnswer,
    TermsChange,
)
from penstock.federation.messages import Message
from penstock.federation.oracle import Oracle
from penstock.federation.query_file import NAME_PATTERN, Name
from penstock.federation.refusals import Reason, RefusedError

SiteName = Annotated[str, Path(max_length=64, pattern=NAME_PATTERN)]
REFUSED_STATUSES = {401: Reason.BAD_TOKEN, 403: Reason.FORBIDDEN, 404: Reason.UNKNOWN_QUERY}


class ChangedTerms(Message):
    """Answers ``POST /terms`` of the oracle: what each site of the query said."""

    changed: dict[Name, TermsAnswer]
    refused: dict[Name, str] = Field(default_factory=dict)
    """Why the others did not."""


def add_relay(app: FastAPI, oracle: Oracle, clock: Callable[[], float]) -> None:
    """Adds to an oracle's application what it asks of sites for others."""

    @app.get("/sites/{site}/inside")
    def inside(site: SiteName, request: Request) -> SiteInside:
        """Asks a site for its gates and guards from inside."""
        with _calling(oracle, site, request, clock()) as client:
            return client.get("/inside", SiteInside)

    @app.post("/sites/{site}/latency", openapi_extra=takes(LatencyChange))
    def latency(
        site: SiteName,
        change: Annotated[LatencyChange, Depends(body_of(LatencyChange))],
        request: Request,
    ) -> LatencyAnswer:
        """Asks a site to hold another latency."""
        with _calling(oracle, site, request, clock()) as client:
            body = change.model_dump_json().encode()
            return client.call("POST", "/latency", LatencyAnswer, body=body)

    @app.post("/terms", openapi_extra=takes(TermsChange))
    def terms(
        change: Annotated[TermsChange, Depends(body_of(TermsChange))], request: Request
    ) -> ChangedTerms:
        """Asks all sites of a query to give it another weight, floor or ceiling."""
        changed: dict[str, TermsAnswer] = {}
        refused: dict[str, RefusedError] = {}
        body = change.model_dump_json(exclude_none=True).encode()
        for site in oracle.sites_of(change.query, clock()):
            try:
                with _calling(oracle, site, request, clock()) as client:
                    changed[site] = client.call("POST", "/terms", TermsAnswer, body=body)
            except RefusedError as error:
                refused[site] = error
        if not changed:
            raise next(
                iter(refused.values()),
                RefusedError(Reason.UNKNOWN_QUERY, f"no site runs {change.query!r}"),
            )
        return ChangedTerms(
            changed=changed, refused={site: str(error) for site, error in refused.items()}
        )


@contextmanager
def _calling(oracle: Oracle, site: str, request: Request, now: float) -> Iterator[SiteClient]:
    """Calls a site with the token that came with a request; what it refuses is refused here."""
    address = oracle.address_of(site, now)
    if address is None:
        raise RefusedError(Reason.UNKNOWN_SITE, f"no site {site!r} is heard of now")
    if request.url.scheme == "https" and not address.startswith("https://"):
        raise RefusedError(
            Reason.NOT_POSSIBLE, f"{site} has no TLS, and is not shown a token that came with it"
        )
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    client = SiteClient(address, token if scheme.lower() == "bearer" else None)
    try:
        yield client
    except CallError as error:
        reason = REFUSED_STATUSES.get(error.status or 0, Reason.NOT_POSSIBLE)
        raise RefusedError(reason, str(error)) from None
    finally:
        client.close()
