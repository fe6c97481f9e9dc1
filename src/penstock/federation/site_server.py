"""The server of a site: takes fragments and news over HTTP, and passes them on to the site."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Path
from fastapi.concurrency import run_in_threadpool

from penstock.federation.access import Access
from penstock.federation.api import body_of, caller_of, make_api, takes
from penstock.federation.checked_app import CheckedApp
from penstock.federation.ids import FRAGMENT_ID_PATTERN
from penstock.federation.inside_messages import (
    LatencyAnswer,
    LatencyChange,
    SiteInside,
    TermsAnswer,
    TermsChange,
)
from penstock.federation.messages import (
    FragmentAnswer,
    FragmentOrder,
    FragmentStatus,
    SicUpdate,
    SiteSources,
    SiteStatistics,
)
from penstock.federation.metrics_page import tell_metrics
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.sequences import Sequences
from penstock.federation.site_control import SiteControl

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

BODY_LIMITS_BYTES = {
    "/update-sic": 1_000,
    "/fragments": 1_000_000,
    "/terms": 1_000,
    "/latency": 1_000,
}
MOST_ORDERS_AT_ONCE = 4
"""Deploying takes seconds and a thread; the threads for everything else must not run out."""
MOST_ORDERS_WAITING = 64

Caller = Annotated[str, Depends(caller_of)]
FragmentId = Annotated[str, Path(max_length=200, pattern=FRAGMENT_ID_PATTERN)]


class _Orders:
    """Lets a few orders run at a time, and a few more wait."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MOST_ORDERS_AT_ONCE)
        self._inside = 0

    async def __aenter__(self) -> None:
        if self._inside >= MOST_ORDERS_WAITING:
            raise RefusedError(Reason.TOO_MANY, "too many orders wait already; try again later")
        self._inside += 1
        await self._room.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._room.release()
        self._inside -= 1


def site_app(
    control: SiteControl,
    access: Access,
    lends: Callable[[], SiteSources] | None = None,
    measured: "Callable[[], Collector] | None" = None,
) -> CheckedApp:
    """Makes the application that a site serves.

    ``lends`` answers which sources it lends, for those who ask the site and not an oracle;
    ``measured`` makes what collects its metrics.
    """
    bodies = (FragmentOrder, SicUpdate, TermsChange, LatencyChange)
    app = make_api("Penstock site", access, bodies)
    _take_fragments(app, control)
    _take_changes(app, control)
    _take_news(app, control)
    _tell(app, control, access)
    if lends is not None:
        _tell_sources(app, lends)
    if measured is not None:
        tell_metrics(app, measured)
    return CheckedApp(app, access, BODY_LIMITS_BYTES)


def _take_fragments(app: FastAPI, control: SiteControl) -> None:
    orders = _Orders()

    @app.post("/fragments", openapi_extra=takes(FragmentOrder))
    async def deploy(
        order: Annotated[FragmentOrder, Depends(body_of(FragmentOrder))], caller: Caller
    ) -> FragmentAnswer:
        """Runs a fragment of a query, and answers the columns of the link that it writes."""
        async with orders:
            return await run_in_threadpool(control.deploy, order, caller)

    @app.delete("/fragments/{identity}")
    async def remove(identity: FragmentId, caller: Caller) -> dict[str, str]:
        """Stops a fragment."""
        async with orders:
            await run_in_threadpool(control.remove, identity, caller)
        return {"removed": identity}


def _take_news(app: FastAPI, control: SiteControl) -> None:
    sequences = Sequences()

    @app.post("/update-sic", openapi_extra=takes(SicUpdate))
    def update_sic(
        update: Annotated[SicUpdate, Depends(body_of(SicUpdate))], caller: Caller
    ) -> dict[str, bool]:
        """Tells what a query's result is worth (THEMIS, section 6)."""
        with sequences.next(update.query, update.seq, time.time()):
            control.update_sic(update, caller)
        return {"ok": True}


def _take_changes(app: FastAPI, control: SiteControl) -> None:
    @app.post("/terms", openapi_extra=takes(TermsChange))
    def set_terms(
        change: Annotated[TermsChange, Depends(body_of(TermsChange))], caller: Caller
    ) -> TermsAnswer:
        """Gives a query another weight, floor or ceiling, from its next batch on."""
        return control.set_terms(change, caller)

    @app.post("/latency", openapi_extra=takes(LatencyChange))
    def set_latency(
        change: Annotated[LatencyChange, Depends(body_of(LatencyChange))], caller: Caller
    ) -> LatencyAnswer:
        """Has the site hold another latency, from the next batch on."""
        return control.set_latency(change, caller)


def _tell(app: FastAPI, control: SiteControl, access: Access) -> None:
    @app.get("/fragments")
    def fragments() -> list[FragmentStatus]:
        """Lists the fragments that the site was asked to run."""
        return control.fragments()

    @app.get("/statistics")
    def statistics() -> SiteStatistics:
        """Answers the figures of the thesis' statistics manager (4.3.2)."""
        return control.statistics().model_copy(update={"refused": access.refusals.counts()})

    @app.get("/inside")
    def inside() -> SiteInside:
        """Answers the gates and guards from inside: strata, the plan in force, and why."""
        return control.inside()

    @app.get("/report")
    def report() -> dict[str, Any]:
        """Answers the site's whole report."""
        return {**control.report(), "refused": access.refusals.counts()}


def _tell_sources(app: FastAPI, lends: Callable[[], SiteSources]) -> None:
    @app.get("/sources")
    def sources() -> SiteSources:
        """Tells what the site is called, and which sources it lends."""
        return lends()
