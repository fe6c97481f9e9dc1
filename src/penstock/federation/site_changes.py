"""What others may change of a running site: the terms of a query, and the latency that it holds."""

from collections.abc import Iterable
from dataclasses import replace

from penstock.core.settings import QueryTerms
from penstock.federation.access import LOCAL_CALLER, READER
from penstock.federation.autonomy import refuse_others, refuse_submitter
from penstock.federation.inside_messages import (
    LatencyAnswer,
    LatencyChange,
    TermsAnswer,
    TermsChange,
)
from penstock.federation.messages import FragmentOrder
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.site_file import SiteFile
from penstock.spark.site import Site

NO_BOUND = float("inf")


def change_terms(
    site: Site, file: SiteFile, orders: Iterable[FragmentOrder], change: TermsChange, caller: str
) -> TermsAnswer:
    """Gives a query other terms, if the caller may: who submitted it, or who runs this site."""
    if change.query in file.queries:
        refuse_no_operator(file, caller)
    else:
        mine = [order for order in orders if order.query.query == change.query]
        if not mine:
            raise RefusedError(Reason.UNKNOWN_QUERY, f"{change.query!r} does not run here")
        refuse_without_token(caller)
        refuse_submitter(file, caller)
        if caller not in operators_of(file):
            refuse_others(mine[0], caller)
    return give_terms(site, change.query, change)


def give_terms(site: Site, query: str, change: TermsChange) -> TermsAnswer:
    """Gives a query of a site, which may call it otherwise, the terms that a change names.

    The others stay as they are.
    """
    said = change.model_dump(exclude_none=True, exclude={"query"})
    if said.get("ceiling") == 1.0:
        said["ceiling"] = NO_BOUND
    terms = replace(site.settings.terms.get(query, QueryTerms()), **said)
    site.set_terms(query, terms)
    return TermsAnswer(
        query=change.query,
        weight=terms.weight,
        floor=terms.floor,
        ceiling=None if terms.ceiling == NO_BOUND else terms.ceiling,
    )


def change_latency(site: Site, file: SiteFile, change: LatencyChange, caller: str) -> LatencyAnswer:
    """Has a site hold another latency, if the caller runs it."""
    refuse_no_operator(file, caller)
    site.set_latency(change.seconds)
    return LatencyAnswer(seconds=change.seconds)


def operators_of(file: SiteFile) -> set[str]:
    """Names who runs a site: its own token, and those whom its file calls operators."""
    return {file.site, *file.operators}


def refuse_no_operator(file: SiteFile, caller: str) -> None:
    """Refuses whoever does not run the site."""
    refuse_without_token(caller)
    if caller not in operators_of(file):
        raise RefusedError(Reason.FORBIDDEN, f"{caller!r} is not among this site's 'operators'")


def refuse_without_token(caller: str) -> None:
    """Refuses whoever gave no token, also where this machine needs none to look."""
    if caller in (LOCAL_CALLER, READER):
        raise RefusedError(
            Reason.FORBIDDEN, "a change needs a token, which 'accepts' in the site's file gives"
        )
