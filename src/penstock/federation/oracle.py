"""What the oracle knows: the sites that it has heard of, and what they said (DISSP, chapter 4).

It has no clock, no file and no network: every method is told the time, in seconds since 1970.
Nothing depends on it but deployments and whoever looks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from penstock.core.fairness import jain
from penstock.federation.count_spread import width_of
from penstock.federation.messages import (
    FAILED,
    RUNNING,
    FragmentStatus,
    Heartbeat,
    QueryStatus,
    RankedSite,
    RankingAnswer,
    SiteStatistics,
)
from penstock.federation.oracle_messages import (
    Event,
    EventKind,
    ListedFragment,
    ListedQuery,
    ListedSite,
    QueriesAnswer,
)
from penstock.federation.query_file import Ranking
from penstock.federation.refusals import Reason, RefusedError

SILENT_AFTER_INTERVALS = 3
OVERDUE_AFTER_INTERVALS = 1.5
"""So soon is it said that a site was not heard of, within two intervals of its end."""
FORGOTTEN_AFTER_SECONDS = 86_400.0
"""Of silence; then a site is not listed any more."""
CLOCK_SET_BACK_SECONDS = 60.0
"""A heartbeat from so far ahead of now was heard before the clock was set back."""
MOST_SITES = 1000


@dataclass
class _Known:
    beat: Heartbeat
    heard: float
    before: Heartbeat | None = None
    """The heartbeat before this one, and how many seconds earlier it was heard."""
    apart: float = 0.0
    silent: bool = False

    def silent_from(self) -> float:
        return self.heard + SILENT_AFTER_INTERVALS * self.beat.interval


class Oracle:
    """Remembers the last heartbeat of each site, and ranks sites by it."""

    def __init__(self) -> None:
        self._sites: dict[str, _Known] = {}
        self._turn = 0
        self._lock = Lock()

    def hear(self, beat: Heartbeat, now: float) -> list[Event]:
        """Takes a heartbeat, and answers what is new in it."""
        with self._lock:
            events = self._find_silent(now)
            before = self._sites.get(beat.site)
            if before is None and len(self._sites) >= MOST_SITES:
                raise RefusedError(Reason.NO_ROOM, f"knows {MOST_SITES} sites already")
            self._sites[beat.site] = _Known(
                beat,
                now,
                None if before is None else before.beat,
                0.0 if before is None else now - before.heard,
            )
            return [*events, *_news(before, beat, now)]

    def find_silent(self, now: float) -> list[Event]:
        """Answers which sites have fallen silent since it was last asked."""
        with self._lock:
            return self._find_silent(now)

    def sites(self, now: float) -> list[ListedSite]:
        """Lists all sites by name, those that are silent too."""
        with self._lock:
            known = sorted(self._sites.items())
        return [
            ListedSite(
                site=name,
                address=site.beat.address,
                silent=now > site.silent_from(),
                overdue=now > site.heard + OVERDUE_AFTER_INTERVALS * site.beat.interval,
                age=max(0.0, now - site.heard),
                interval=site.beat.interval,
                statistics=site.beat.statistics,
                sources=site.beat.sources,
                fragments=list(_flowing(site)),
            )
            for name, site in known
        ]

    def address_of(self, site: str, now: float) -> str | None:
        """Answers where a site listens; None of one that is not known, or is silent."""
        with self._lock:
            known = self._sites.get(site)
        return None if known is None or now > known.silent_from() else known.beat.address

    def sites_of(self, query: str, now: float) -> list[str]:
        """Names the sites that run something of a query and are not silent."""
        with self._lock:
            known = sorted(self._sites.items())
        return [
            name
            for name, site in known
            if now <= site.silent_from() and query in {told.query for told in site.beat.fragments}
        ]

    def ranking(self, by: Ranking, now: float) -> RankingAnswer:
        """Lists the sites that are not silent, the best place for a fragment first."""
        alive = [_as_ranked(site) for site in self.sites(now) if not site.silent]
        with self._lock:
            self._turn += by == "round-robin"
            turn = self._turn - 1
        return RankingAnswer(by=by, sites=ranked(alive, by, turn))

    def queries(self, now: float) -> QueriesAnswer:
        """Lists the queries of all sites, the poorest first, and says how fairly they fare."""
        with self._lock:
            known = list(self._sites.values())
        best: dict[str, ListedQuery] = {}
        for query in (query for site in known for query in _queries(site, now)):
            other = best.get(query.query)
            if other is None or _standing(query) > _standing(other):
                best[query.query] = query
        listed = sorted(
            best.values(), key=lambda query: (_missing(query), _sic(query), query.query)
        )
        read = _sources_read(known)
        counted = [site.beat.counted for site in known]
        listed = [
            query.model_copy(
                update={
                    **read.get(query.query, {}),
                    "interval_width": width_of(query.query, counted),
                }
            )
            for query in listed
        ]
        fresh = [_sic(query) for query in listed if not _missing(query)]
        return QueriesAnswer(
            queries=listed,
            jain=min(1.0, jain(fresh)) if fresh else None,
            mean_sic=sum(fresh) / len(fresh) if fresh else None,
        )

    def _find_silent(self, now: float) -> list[Event]:
        found: list[Event] = []
        for name, site in list(self._sites.items()):
            if site.heard > now + CLOCK_SET_BACK_SECONDS:
                site.heard = now  # else nobody would fall silent until the clock is where it was
            if not site.silent and now > site.silent_from():
                site.silent = True
                found.append(_event("site-silent", site.silent_from(), name, "is silent"))
            if now > site.heard + FORGOTTEN_AFTER_SECONDS:
                del self._sites[name]
        return found


def load(statistics: SiteStatistics) -> float:
    """Says how much a site is asked to do for each unit that it can do; above 1 it sheds.

    Its utilisation alone would not tell a site that is full from one that has to shed half.

    >>> load(SiteStatistics(utilisation=0.9, throughput=100, dropped=100))
    1.8
    """
    if not statistics.dropped:
        return statistics.utilisation
    if not statistics.throughput:
        return float("inf")
    return statistics.utilisation * (1 + statistics.dropped / statistics.throughput)


def ranked(sites: Sequence[RankedSite], by: Ranking, turn: int = 0) -> list[RankedSite]:
    """Answers the sites with the best first; round-robin begins with another one each turn."""
    if by == "round-robin":
        first = turn % max(1, len(sites))
        return [*sites[first:], *sites[:first]]
    if by == "least-loaded":
        return sorted(
            sites, key=lambda site: (load(site.statistics), site.statistics.fragments_running)
        )
    return sorted(sites, key=lambda site: (-_average_sic(site), load(site.statistics)))


def _news(before: _Known | None, beat: Heartbeat, now: float) -> Iterator[Event]:
    """Answers what a heartbeat says that the one before did not."""
    name = beat.site
    if before is None:
        yield _event("site-appeared", now, name, f"appeared at {beat.address}")
    elif before.silent:
        yield _event("site-back", now, name, f"is back after {now - before.heard:.0f} s")
    shed, shed_before = beat.statistics.dropped, before.beat.statistics.dropped if before else 0
    if shed and not shed_before:
        yield _event("overload-began", now, name, f"sheds {shed:,.0f} tuples a second")
    if shed_before and not shed:
        yield _event("overload-ended", now, name, "sheds nothing any more")
    yield from _held_back(None if before is None else before.beat, beat, now)
    runs, ran = _names(beat.queries), _names(before.beat.queries if before else ())
    for query in sorted(runs - ran):
        yield _event("query-appeared", now, name, f"has the root of {query}", query)
    for query in sorted(ran - runs):
        yield _event("query-gone", now, name, f"has the root of {query} no more", query)
    yield from _failures(_fragments(before.beat) if before else {}, beat, now)


def _failures(before: Mapping[str, FragmentStatus], beat: Heartbeat, now: float) -> Iterator[Event]:
    """Answers which fragments have failed since the last heartbeat, and which run again."""
    for identity, status in sorted(_fragments(beat).items()):
        had_failed = identity in before and before[identity].state == FAILED
        if status.state == FAILED and not had_failed:
            text = f"cannot run {identity}: {status.trouble}"
            yield _event("fragment-failed", now, beat.site, text, status.query)
        if status.state == RUNNING and had_failed:
            yield _event("fragment-back", now, beat.site, f"runs {identity} again", status.query)


def _fragments(beat: Heartbeat) -> dict[str, FragmentStatus]:
    return {status.id: status for status in beat.fragments}


def _held_back(before: Heartbeat | None, beat: Heartbeat, now: float) -> Iterator[Event]:
    """Answers which queries a limit of their source holds back now, or holds back no more."""
    held = beat.statistics.held_back_by
    was = before.statistics.held_back_by if before else {}
    for query, option in held.items():
        if query not in was:
            yield _event("held-back", now, beat.site, f"is held back by {option}: {query}", query)
    for query in was.keys() - held.keys():
        yield _event("held-back-no-more", now, beat.site, f"is not held back: {query}", query)


def _flowing(site: _Known) -> Iterator[ListedFragment]:
    """Answers the fragments of a site, with what flowed between its last two heartbeats."""
    before = {told.id: told for told in site.before.fragments} if site.before else {}
    for told in site.beat.fragments:
        was = before.get(told.id, told)
        seconds = max(site.apart, 1e-3)
        yield ListedFragment(
            **told.model_dump(),
            arrived_per_second=max(0.0, told.arrived - was.arrived) / seconds,
            rows_per_second=max(0.0, told.rows - was.rows) / seconds,
        )


def _sources_read(known: Iterable[_Known]) -> dict[str, dict[str, float]]:
    """Answers for each query what its fragments have read of its sources.

    What they have read of each other is no tuple of a source, so a fragment that another one
    sends to does not count.
    """
    fragments = [told for site in known for told in site.beat.fragments]
    fed = {receiver for told in fragments for receiver in told.sends_to}
    found: dict[str, dict[str, float]] = {}
    for told in fragments:
        if told.id not in fed:
            counts = found.setdefault(told.query, {"arrived": 0, "admitted": 0, "shed": 0})
            counts["arrived"] += told.arrived
            counts["admitted"] += told.admitted
            counts["shed"] += max(0.0, told.arrived - told.admitted)
    return found


def _names(queries: Iterable[QueryStatus]) -> set[str]:
    return {query.query for query in queries}


def _event(kind: EventKind, at: float, site: str, text: str, query: str = "") -> Event:
    return Event(at=at, kind=kind, site=site, query=query, text=f"{site} {text}")


def _as_ranked(site: ListedSite) -> RankedSite:
    return RankedSite(
        site=site.site,
        address=site.address,
        statistics=site.statistics,
        sources=site.sources,
        age=site.age,
    )


def _average_sic(site: RankedSite) -> float:
    """Takes a site without queries for a perfect one: nobody is short of anything there."""
    told = site.statistics.average_sic
    return 1.0 if told is None else told


def _queries(site: _Known, now: float) -> Iterator[ListedQuery]:
    for status in site.beat.queries:
        yield ListedQuery(
            **status.model_dump(),
            site=site.beat.site,
            silent=now > site.silent_from(),
            age=max(0.0, now - site.heard),
        )


def _sic(query: ListedQuery) -> float:
    """The SIC of now, where it is known, and else the mean over time."""
    told = query.sic if query.sic_now is None else query.sic_now
    return 0.0 if told is None else told


def _missing(query: ListedQuery) -> bool:
    return query.silent or (query.sic is None and query.sic_now is None)


def _standing(query: ListedQuery) -> tuple[bool, float]:
    """Orders what replicas of a root say: fresh news first, then the better result."""
    return not _missing(query), _sic(query)
