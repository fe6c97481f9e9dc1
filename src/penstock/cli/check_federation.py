"""Checks files of sites and of federated queries, and says what becomes of a query."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from penstock.cli.oracle_calls import oracle_of
from penstock.cli.run import described
from penstock.cli.submit import sql_mistake
from penstock.cli.terminal import say
from penstock.documents import Document
from penstock.errors import PenstockError
from penstock.federation.fragment_plan import PlannedFragment, SplitQuery
from penstock.federation.messages import LentSource
from penstock.federation.query_file import ANY_SITE, ROOT, FederatedQuery, load_query
from penstock.federation.site_check import CheckedSite, check_site
from penstock.federation.site_file import SiteFile, is_loopback, load_site
from penstock.federation.split import split
from penstock.spark.session import check_java, session, workspace
from penstock.sql import SqlError

Catalog = Mapping[str, LentSource]


def check_federation(
    sites: Sequence[Path], queries: Sequence[Path], options: argparse.Namespace
) -> None:
    """Raises the first mistake; says of each file what it has."""
    files = [load_site(path) for path in sites]
    read = [load_query(path) for path in queries]
    console = Console()
    checked = _check_sites(files)
    for path, (file, _), site in zip(sites, files, checked, strict=True):
        say(console, f"{path}: good")
        for line in _site_lines(file, site):
            say(console, f"  {line}")
    catalog = {f"{site.site}.{name}": lent for site in checked for name, lent in site.lent.items()}
    if options.oracle is not None:
        catalog = {**_told_by_oracle(options), **catalog}
    for path, (query, document) in zip(queries, read, strict=True):
        say(console, f"{path}: good" if catalog else f"{path}: its form is good")
        for line in _query_lines(query, document, catalog):
            say(console, f"  {line}")


def _check_sites(files: Sequence[tuple[SiteFile, Document]]) -> list[CheckedSite]:
    """Has Spark look at the sites, one session for all of them."""
    if not files:
        return []
    check_java()
    settings = {name: text for file, _ in files for name, text in file.spark.items()}
    mistake: PenstockError | None = None
    checked: list[CheckedSite] = []
    with workspace("check") as directory, session(directory, "check", settings) as spark:
        try:
            checked = [check_site(spark, file, document) for file, document in files]
        except PenstockError as error:
            mistake = error  # told outside: it is no failure of Spark's
    if mistake is not None:
        raise mistake
    return checked


def _told_by_oracle(options: argparse.Namespace) -> dict[str, LentSource]:
    with oracle_of(options) as client:
        return {
            f"{site.site}.{name}": lent
            for site in client.sites()
            for name, lent in site.sources.items()
        }


def _site_lines(file: SiteFile, site: CheckedSite) -> Iterable[str]:
    for name, lent in site.lent.items():
        yield f"lends {file.site}.{name} ({lent.columns})"
    if file.lends.capacity < 1:
        yield f"lends others {file.lends.capacity:.0%} of its capacity while its own want more"
    for name, query in site.own.items():
        yield f"{name}: {described(query)}"
    who = ", ".join(file.accepts) or "whoever is on this machine"
    reach = "from this machine alone" if is_loopback(file.host) else f"at {file.host}"
    yield f"can be reached {reach}, by {who}"


def _query_lines(query: FederatedQuery, document: Document, catalog: Catalog) -> Iterable[str]:
    if not catalog:
        yield "its SQL was not looked at: give the files of its sites too, or --oracle URL"
        return
    cut = _split(query, document, catalog)
    for fragment in cut.fragments:
        yield f"{fragment.name}: {told(fragment, query, cut)}"
    root = cut.fragment(ROOT)
    if root.rewritten is not None:
        yield f"result: {described(root.rewritten)}"
    if cut.unsplit is not None:
        yield f"not split: {cut.unsplit}; so tuples are forwarded to the root"


def _split(query: FederatedQuery, document: Document, catalog: Catalog) -> SplitQuery:
    try:
        return split(query, catalog)
    except SqlError as error:
        raise sql_mistake(query, document, error) from None


def told(fragment: PlannedFragment, query: FederatedQuery, cut: SplitQuery) -> str:
    """Says in words what a fragment does, and where."""
    what = {
        "partial": "partial aggregates",
        "relay": "adds to what it hears and passes it on",
        "merge": "merges what it hears",
        "forward": "forwards tuples",
        "written": "as written",
    }[fragment.kind]
    parts = [what]
    if fragment.sources:
        parts.append(f"reads {', '.join(fragment.sources)}")
    heard = list(dict.fromkeys(s for senders in fragment.inputs.values() for s in senders))
    if heard:
        parts.append(f"hears {', '.join(heard)}")
    receivers = cut.receivers(fragment.name)
    if receivers:
        parts.append(f"sends to {', '.join(receivers)}")
    replicas = query.replicas.get(fragment.name, 1)
    if replicas > 1:
        parts.append(f"{replicas} replicas")
    return f"{_where(fragment, query)}; {'; '.join(parts)}"


def _where(fragment: PlannedFragment, query: FederatedQuery) -> str:
    if fragment.site != ANY_SITE:
        return f"at {fragment.site}"
    wish = query.place.get(fragment.name)
    if wish is None:
        return "at the least loaded site"
    if wish in ("least-loaded", "round-robin", "highest-sic"):
        return f"at a site by {wish}"
    return f"at {wish}"
