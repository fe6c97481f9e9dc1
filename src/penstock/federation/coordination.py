"""What the coordinators of a site have to say to whom, and when (THEMIS, section 6).

There is one coordinator for each query whose root is at the site. All of them are kept here
together, since what they share is the sites that they speak to. There is no clock and no network:
``coordinator`` does the errands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from penstock.federation.ids import fragment_id
from penstock.federation.messages import (
    RUNNING,
    FragmentOrder,
    FragmentStatus,
    Place,
    SicUpdate,
)
from penstock.federation.sequences import Numbering

INTERVALS_BETWEEN_LOOKS = 5
NO_AGES: Mapping[str, float] = MappingProxyType({})
LONGEST_BACK_OFF_INTERVALS = 16
PATIENCE_SECONDS = 60.0
"""How long a fragment may be missing at its site before it is deployed anew. A site that has just
started takes up its fragments itself, and one that is moved is missing until it has been stopped
at its old site."""


class Missing(NamedTuple):
    """Is a fragment that does not run where it should."""

    root: FragmentOrder
    """The order of its query's root, which has the query, the places and the catalog."""
    fragment: str
    replica: int
    place: Place


@dataclass(frozen=True)
class Errand:
    """Is what one site is told and asked at a time."""

    place: Place
    updates: tuple[SicUpdate, ...]
    look: bool
    """Whether to ask which fragments run there."""


@dataclass
class ToldSite:
    """Remembers how it went with a site."""

    busy: bool = False
    """Whether an errand is under way; then there is no second one."""
    failed: int = 0
    """How many errands in a row found nobody."""
    not_before: float = 0.0
    looked: float | None = None
    """When it was last asked which fragments it runs, since it last failed."""


@dataclass
class Coordination:
    """Says what is to be told to the sites of all queries whose root is here."""

    own_site: str
    interval_seconds: float
    patience_seconds: float = PATIENCE_SECONDS
    failures: dict[str, int] = field(default_factory=dict)
    """By site: the calls that it did not answer, or refused."""
    _sites: dict[str, ToldSite] = field(default_factory=dict)
    """By address."""
    _missing_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """By fragment and address."""
    _numbering: Numbering = field(default_factory=Numbering)

    def updates(
        self,
        sics: Mapping[str, float | None],
        now: float,
        ages: Mapping[str, float] = NO_AGES,
    ) -> dict[str, SicUpdate]:
        """Makes the news of each query of which the result is known.

        ``ages`` says how long ago the sources sent what results are made of: the news speaks of
        that time, and what a site has admitted since is not in it.
        """
        return {
            query: SicUpdate(
                query=query,
                sic=sic,
                at=max(now - ages.get(query, 0.0), 0.0),
                seq=self._numbering.next(now),
            )
            for query, sic in sics.items()
            if sic is not None
        }

    def errands(
        self, roots: Mapping[str, FragmentOrder], news: Mapping[str, SicUpdate], now: float
    ) -> list[Errand]:
        """Answers what other sites are to be told now; a site that is busy or dead is left out."""
        queries: dict[str, list[str]] = {}
        places: dict[str, Place] = {}
        for query, order in roots.items():
            for place in _places(order):
                if place.site != self.own_site and query not in queries.get(place.address, ()):
                    queries.setdefault(place.address, []).append(query)
                    places[place.address] = place
        self._forget(roots, set(places))
        return [
            self._errand(place, [news[query] for query in queries[address] if query in news], now)
            for address, place in places.items()
            if self._may_be_called(address, now)
        ]

    def done(self, errand: Errand, failures: int, now: float, *, answered: bool) -> None:
        """Hears how an errand went; a site that did not answer is left alone for a while."""
        site = self._sites.setdefault(errand.place.address, ToldSite())
        site.busy = False
        if failures:
            self.failures[errand.place.site] = self.failures.get(errand.place.site, 0) + failures
            site.looked = None
        if answered:
            site.failed, site.not_before = 0, 0.0
            return
        wait = min(2**site.failed, LONGEST_BACK_OFF_INTERVALS) * self.interval_seconds
        site.failed, site.not_before = site.failed + 1, now + wait

    def missing(
        self,
        roots: Mapping[str, FragmentOrder],
        address: str,
        runs: Iterable[FragmentStatus],
        now: float,
    ) -> list[Missing]:
        """Answers which fragments a site should run, and has not run for a while, or has failed."""
        self._sites.setdefault(address, ToldSite()).looked = now
        running = {status.id for status in runs if status.state == RUNNING}
        found = []
        for missing in _placed_at(roots, address):
            identity = fragment_id(missing.fragment, missing.root.query.query, missing.replica)
            key = (identity, address)
            if identity in running:  # one that has failed is as good as missing
                self._missing_since.pop(key, None)
            elif now - self._missing_since.setdefault(key, now) >= self.patience_seconds:
                self._missing_since[key] = now  # and if that does not help, once more
                found.append(missing)
        return found

    def _may_be_called(self, address: str, now: float) -> bool:
        site = self._sites.setdefault(address, ToldSite())
        return not site.busy and now >= site.not_before

    def _errand(self, place: Place, updates: list[SicUpdate], now: float) -> Errand:
        site = self._sites[place.address]
        site.busy = True
        wait = INTERVALS_BETWEEN_LOOKS * self.interval_seconds
        return Errand(place, tuple(updates), site.looked is None or now >= site.looked + wait)

    def _forget(self, roots: Mapping[str, FragmentOrder], addresses: set[str]) -> None:
        """Forgets sites that host nothing of these queries any more."""
        for address in set(self._sites) - addresses:
            if not self._sites[address].busy:
                del self._sites[address]
        if self._missing_since:
            placed = {
                (fragment_id(m.fragment, m.root.query.query, m.replica), address)
                for address in addresses
                for m in _placed_at(roots, address)
            }
            for key in set(self._missing_since) - placed:
                del self._missing_since[key]


def _places(order: FragmentOrder) -> Iterable[Place]:
    return (place for places in order.places.values() for place in places)


def _placed_at(roots: Mapping[str, FragmentOrder], address: str) -> list[Missing]:
    """Lists the fragments that should run at an address."""
    return [
        Missing(root, fragment, replica, place)
        for root in roots.values()
        for fragment, places in root.places.items()
        for replica, place in enumerate(places)
        if place.address == address
    ]
