"""What a site refuses, by its own file and by what it lends; see docs/security.md."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from penstock.federation.confinement import RefusedSqlError, confine
from penstock.federation.federated_sql import written_out
from penstock.federation.fragment_plan import PlannedFragment
from penstock.federation.ids import fragment_id
from penstock.federation.known_splits import KnownSplits
from penstock.federation.messages import FragmentOrder, LentSource
from penstock.federation.query_file import ANY_SITE, ROOT
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.site_file import SiteFile
from penstock.sql.aggregates import name_of
from penstock.sql.grammar import parse

SINK_FORMATS = ("console", "csv", "json", "memory", "noop", "orc", "parquet")
"""Where a query from outside may put its results; each of the files goes below the site's own."""
LONGEST_TIME_SECONDS = 86_400.0
MOST_LETTERS = 20_000
"""Of all SQL of a query together."""
MOST_AGGREGATES = 64
SINK_OPTIONS = ("compression", "header", "truncate", "numRows")


def refuse_submitter(file: SiteFile, name: str) -> None:
    """Refuses somebody from whom the site takes nothing."""
    if name and name in file.refuses.submitters:
        raise RefusedError(Reason.FORBIDDEN, "this site takes nothing of this submitter")


def owned_by(order: FragmentOrder, caller: str) -> FragmentOrder:
    """Returns an order with its submitter: whoever gives it, or, where a site of the query brings
    a fragment back, whoever gave it first.
    """
    if order.submitter and caller in _sites_of(order):
        return order
    return order.model_copy(update={"submitter": caller})


def refuse_others(order: FragmentOrder, caller: str) -> None:
    """Refuses whoever would change a fragment and neither submitted it nor hosts its query."""
    if caller != order.submitter and caller not in _sites_of(order):
        raise RefusedError(
            Reason.FORBIDDEN, f"{order.query.query!r} was submitted by somebody else"
        )


def _sites_of(order: FragmentOrder) -> set[str]:
    return {place.site for places in order.places.values() for place in places}


def refuse_order(
    file: SiteFile,
    lent: Mapping[str, LentSource],
    running: Iterable[FragmentOrder],
    splits: KnownSplits,
    order: FragmentOrder,
    caller: str,
) -> None:
    """Refuses an order that a site's file refuses, or that reads what the site does not lend."""
    refuse_submitter(file, caller)
    refuse_submitter(file, order.submitter)
    refuse_query(file, order)
    others = list(running)
    refuse_name_of_another(order, others)
    _refuse_many(file, others, order)
    _refuse_catalog(file, lent, order)  # before the query is cut, which takes a while
    plan = splits.of(order).fragment(order.fragment)
    refuse_place(file, plan)
    refuse_sources(lent, plan)


def refuse_news(file: SiteFile, orders: Iterable[FragmentOrder], query: str, caller: str) -> None:
    """Refuses news of a query that does not run here, or that is not from a site of its root.

    Whoever may submit could otherwise say that a query of theirs is worth nothing, and each site
    would favour it.
    """
    mine = [order for order in orders if order.query.query == query]
    if not mine:
        raise RefusedError(Reason.UNKNOWN_QUERY, f"{query!r} does not run here")
    roots = {place.site for order in mine for place in order.places.get(ROOT, [])}
    if file.accepts and caller not in {file.site, *roots}:
        raise RefusedError(Reason.FORBIDDEN, f"the root of {query!r} is not at {caller!r}")


def refuse_query(file: SiteFile, order: FragmentOrder) -> None:
    """Refuses a query by its name, by its sink, and by what its SQL would do."""
    query = order.query
    if query.query in file.refuses.queries:
        raise RefusedError(Reason.FORBIDDEN, f"this site takes no query {query.query!r}")
    if query.query in file.queries:
        raise RefusedError(Reason.CONFLICT, f"{query.query!r} is a query of this site's own")
    _refuse_times(file, order)
    try:
        _refuse_length(_texts(order))
        for text in _texts(order):
            confine(text, _relations(order))
        _refuse_aggregates(_texts(order))
    except RefusedSqlError as error:
        raise RefusedError(Reason.BAD_SQL, str(error)) from None
    if order.fragment == ROOT:
        _refuse_sink(order)


def refuse_name_of_another(order: FragmentOrder, running: Iterable[FragmentOrder]) -> None:
    """Refuses a query of which this site runs fragments already that belong to another query.

    They would share its weight, its SIC and its links.
    """
    name = order.query.query
    if any(one.query.query == name and one.query != order.query for one in running):
        raise RefusedError(
            Reason.CONFLICT, f"'query' must be a name that no other query has here; got {name!r}"
        )


def refuse_place(file: SiteFile, plan: PlannedFragment) -> None:
    """Refuses a fragment that has to run elsewhere: its sources are not those of this site."""
    if plan.site != ANY_SITE and plan.site.lower() != file.site.lower():
        raise RefusedError(
            Reason.NOT_POSSIBLE,
            f"{plan.name!r} has to run at {plan.site!r}, and this site is {file.site!r}",
        )


def refuse_sources(lent: Mapping[str, LentSource], plan: PlannedFragment) -> None:
    """Refuses a fragment that reads what the site does not lend."""
    for source in plan.sources:
        _refuse_source(lent, source)


def _refuse_many(file: SiteFile, running: Sequence[FragmentOrder], order: FragmentOrder) -> None:
    """Refuses one fragment more than the site lends room for."""
    known = {_identity(one) for one in running}
    if len(known) >= file.lends.fragments and _identity(order) not in known:
        raise RefusedError(
            Reason.NO_ROOM,
            f"this site runs {file.lends.fragments} fragments of others, and lends no more",
        )


def _identity(order: FragmentOrder) -> str:
    return fragment_id(order.fragment, order.query.query, order.replica)


def _refuse_catalog(file: SiteFile, lent: Mapping[str, LentSource], order: FragmentOrder) -> None:
    """Refuses an order that says that this site lends what it does not lend."""
    for name in order.catalog:
        site, _, source = name.partition(".")
        if site == file.site:
            _refuse_source(lent, source)


def _refuse_source(lent: Mapping[str, LentSource], source: str) -> None:
    if source not in lent:
        raise RefusedError(Reason.UNKNOWN_SOURCE, f"this site lends no source {source!r}")


def _refuse_times(file: SiteFile, order: FragmentOrder) -> None:
    """Refuses a query whose times would keep a site's cores busy, or its state for ever.

    A batch costs a site some tenths of a second whatever is in it, so that a query of others has
    none more often than the site's own.
    """
    interval, watermark = order.query.interval, order.query.watermark
    if interval is not None and not file.interval <= interval <= LONGEST_TIME_SECONDS:
        raise RefusedError(
            Reason.FORBIDDEN,
            f"interval must lie between this site's {file.interval:g} s and a day; "
            f"got {interval:g} s",
        )
    if not watermark <= LONGEST_TIME_SECONDS:
        raise RefusedError(
            Reason.FORBIDDEN, f"watermark must be a day at most; got {watermark:g} s"
        )


def _refuse_length(texts: Sequence[str]) -> None:
    letters = sum(map(len, texts))
    if letters > MOST_LETTERS:
        raise RefusedError(
            Reason.TOO_LARGE, f"the query has {letters} letters; {MOST_LETTERS} are the most"
        )


def _refuse_aggregates(texts: Sequence[str]) -> None:
    """Refuses SQL that would take long to cut: some seconds for a hundred aggregates."""
    trees = [parse(written_out(text)) for text in texts]
    aggregates = sum(name_of(node) is not None for tree in trees for node in tree.walk())
    if aggregates > MOST_AGGREGATES:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"the query has {aggregates} aggregates; {MOST_AGGREGATES} are the most",
        )


def _texts(order: FragmentOrder) -> list[str]:
    query = order.query
    if query.sql is not None:
        return [query.sql]
    return [fragment.sql for fragment in (query.fragments or {}).values()]


def _relations(order: FragmentOrder) -> set[str]:
    """Returns all names that the SQL may read: sources, also as their site calls them, and
    other fragments.
    """
    local = {name.partition(".")[2] for name in order.catalog}
    return {*order.catalog, *local, *(order.query.fragments or {})}


def _refuse_sink(order: FragmentOrder) -> None:
    """Refuses results that would go anywhere but below the directory of the site's file."""
    sink = order.query.sink
    if sink.format not in SINK_FORMATS:
        raise RefusedError(
            Reason.FORBIDDEN,
            f"sink: format must be one of {', '.join(SINK_FORMATS)}; got {sink.format!r}",
        )
    for name in sink.options:
        if name not in SINK_OPTIONS:
            raise RefusedError(
                Reason.FORBIDDEN,
                f"sink: options must be among {', '.join(SINK_OPTIONS)}; got {name!r}",
            )
    path = PurePosixPath(sink.path or "")
    if path.is_absolute() or ".." in path.parts or ":" in str(path):
        raise RefusedError(
            Reason.FORBIDDEN,
            "sink: path must be relative, since results lie beside the links, such as "
            f"out/{order.query.query}; got {sink.path!r}",
        )
