"""Waits with a submission until the sites are up that a query names."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from penstock.cli.submit import submit_file
from penstock.errors import PenstockError
from penstock.federation.client import CallError
from penstock.federation.federated_sql import read_sql
from penstock.federation.known_sites import KnownSites
from penstock.federation.placing import WAYS
from penstock.federation.query_file import ANY_SITE, FederatedQuery, load_query

RETRY_SECONDS = 1.0
LONGEST_SUBMISSION_SECONDS = 60.0
Wait = Callable[[float], bool]
"""Lets so many seconds pass; says whether to go on waiting."""


def submit_when_up(path: Path, sites: KnownSites, wait: Wait) -> str:
    """Submits a query once its sites are up, or when nobody wants to wait any more.

    A site that has only just started may be too busy to answer; then it is asked again.
    """
    query, _ = load_query(path)
    while True:
        late = _missing(query, sites)
        if not late or not wait(RETRY_SECONDS):
            try:
                return submit_file(path, sites)
            except CallError:
                if late or not wait(RETRY_SECONDS):
                    raise


class Submissions:
    """Submits queries one after the other from a thread, since each takes some seconds."""

    def __init__(self, files: Sequence[Path], sites: KnownSites) -> None:
        self._threads, self._ended = ThreadPoolExecutor(1), Event()
        self._left = [self._threads.submit(self._submit, file, sites) for file in files]

    def news(self) -> list[str]:
        """Returns what was said of those that are through by now; raises if one was refused."""
        through = [future for future in self._left if future.done()]
        self._left = [future for future in self._left if future not in through]
        return [future.result() for future in through]

    def _submit(self, file: Path, sites: KnownSites) -> str:
        deadline = time.monotonic() + LONGEST_SUBMISSION_SECONDS
        return submit_when_up(
            file,
            sites,
            lambda seconds: not self._ended.wait(seconds) and time.monotonic() < deadline,
        )

    def __enter__(self) -> "Submissions":
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._threads.shutdown(wait=False, cancel_futures=True)


def sites_named(query: FederatedQuery) -> set[str]:
    """Returns the sites that a query needs, by its SQL and by what it says of places."""
    named = {site for site in query.place.values() if site not in WAYS}
    fragments = (query.fragments or {}).values()
    named |= {fragment.site for fragment in fragments if fragment.site != ANY_SITE}
    for text in [query.sql or "", *(fragment.sql for fragment in fragments)]:
        named |= _sites_read(text)
    return named


def _sites_read(sql: str) -> set[str]:
    found: set[str] = set()

    def note(parts: Sequence[str]) -> str:
        if len(parts) == 2:  # a site and its source
            found.add(parts[0])
        return ".".join(parts)

    if sql:
        try:
            read_sql(sql, note)
        except PenstockError:
            return set()  # whoever splits it says what is wrong
    return found


def _missing(query: FederatedQuery, sites: KnownSites) -> set[str]:
    try:
        up = {site.site.lower() for site in sites.ranking().sites}
    except CallError:
        return {"the oracle"}
    return {site for site in sites_named(query) if site.lower() not in up}
