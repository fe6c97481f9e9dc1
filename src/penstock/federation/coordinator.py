"""Tells the sites of a query what its result is worth, beside the query's root (THEMIS, 6)."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import TracebackType

from penstock.errors import PenstockError
from penstock.federation.client import CallError, Sent, SiteClient
from penstock.federation.coordination import PATIENCE_SECONDS, Coordination, Errand, Missing
from penstock.federation.messages import FragmentOrder, SicUpdate

MOST_SITES_AT_ONCE = 32
"""Each has a thread while it is told; one that is dead holds it for as long as a call may take."""
FIRST_FAILING_STATUS = 500

log = logging.getLogger("penstock")
Roots = Callable[[], Mapping[str, FragmentOrder]]


class SiteCoordinators:
    """The coordinators of all queries whose root is at this site.

    ``tell`` is to be called once an interval. It does not wait for anybody: each site is called by
    a thread of its own, and one that has not answered yet is left out.

    Parameters
    ----------
    own_site
        The name of this site.
    interval_seconds
        How often ``tell`` is called.
    roots
        Answers the orders of the roots that run here, by query; their ``places`` say who is told.
    result_sic
        Answers what a query's result is worth now; None where that is not known yet.
    result_age
        Answers how many seconds ago the sources sent what that result is made of.
    tell_own
        Hears the news for this site itself.
    connect
        Makes a client for the address of a site.
    deploy_anew
        Is given a fragment that does not run where it should, though its site answers.
    """

    def __init__(
        self,
        own_site: str,
        interval_seconds: float,
        *,
        roots: Roots,
        result_sic: Callable[[str], float | None],
        result_age: Callable[[str], float] = lambda _: 0.0,
        tell_own: Callable[[SicUpdate], None],
        connect: Callable[[str], SiteClient],
        deploy_anew: Callable[[Missing], None],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._coordination = Coordination(own_site, interval_seconds, patience_seconds)
        self._roots, self._tell_own = roots, tell_own
        self._result_sic, self._result_age = result_sic, result_age
        self._connect, self._deploy_anew = connect, deploy_anew
        self._clients: dict[str, SiteClient] = {}
        self._sent: dict[str, Sent] = {}
        self._lock = Lock()
        self._callers = ThreadPoolExecutor(MOST_SITES_AT_ONCE, "penstock-tells")
        self._deployer = ThreadPoolExecutor(1, "penstock-deploys")

    def __enter__(self) -> "SiteCoordinators":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Tells nobody any more; what is under way has an end of its own."""
        self._callers.shutdown(wait=True, cancel_futures=True)
        self._deployer.shutdown(wait=True, cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def tell(self, now: float | None = None) -> dict[str, SicUpdate]:
        """Sends everybody the news that there is, and answers it."""
        at = time.time() if now is None else now
        roots = self._roots()
        sics = {query: self._result_sic(query) for query in roots}
        ages = {query: self._result_age(query) for query in roots}
        with self._lock:
            news = self._coordination.updates(sics, at, ages)
            errands = self._coordination.errands(roots, news, at)
            self._sent = {query: self._sent.get(query, Sent()) for query in roots}
        for update in news.values():
            try:
                self._tell_own(update)
            except PenstockError as error:  # the query may have gone in the meantime
                log.warning("the news of %s does not reach its own site: %s", update.query, error)
        for errand in errands:
            self._callers.submit(self._go, errand, at)
        return news

    def sent(self, query: str) -> Sent:
        """Counts the updates of a query that went to other sites."""
        with self._lock:
            return self._sent.get(query, Sent())

    @property
    def failures(self) -> dict[str, int]:
        """By site: the calls that it did not answer, or refused."""
        with self._lock:
            return dict(self._coordination.failures)

    def _go(self, errand: Errand, at: float) -> None:
        """Does an errand; whatever happens, the site can be called again afterwards."""
        began, failures, answered = time.monotonic(), 0, False
        try:
            client = self._client(errand.place.address)
            failures = sum(not self._send(client, update) for update in errand.updates)
            if errand.look or failures:
                self._look(client, errand, at)
            answered = True
        except CallError as error:
            failures += 1
            answered = error.status is not None
            log.warning("the site %s does not hear its coordinator: %s", errand.place.site, error)
        except Exception:
            log.exception("the coordinator's call to %s failed", errand.place.site)
        finally:
            with self._lock:
                now = at + time.monotonic() - began
                self._coordination.done(errand, failures, now, answered=answered)

    def _send(self, client: SiteClient, update: SicUpdate) -> bool:
        """Sends one update, and says whether it was taken; raises if nobody is there."""
        try:
            size = client.update_sic(update)
        except CallError as error:
            if error.status is None or error.status >= FIRST_FAILING_STATUS:
                raise
            return False
        with self._lock:
            if update.query in self._sent:
                self._sent[update.query] = self._sent[update.query].plus(size)
        return True

    def _look(self, client: SiteClient, errand: Errand, at: float) -> None:
        """Asks which fragments run, and has those that are missing deployed anew."""
        runs, roots = client.fragments(), self._roots()
        with self._lock:
            missing = self._coordination.missing(roots, errand.place.address, runs, at)
        for one in missing:
            self._deployer.submit(self._bring_back, one)

    def _bring_back(self, missing: Missing) -> None:
        name, query = missing.fragment, missing.root.query.query
        log.warning(
            "%s of %s is missing at %s; it is deployed anew", name, query, missing.place.site
        )
        try:
            self._deploy_anew(missing)
        except PenstockError as error:
            log.warning("%s of %s cannot be deployed anew: %s", name, query, error)
        except Exception:
            log.exception("%s of %s cannot be deployed anew", name, query)

    def _client(self, address: str) -> SiteClient:
        with self._lock:
            if address not in self._clients:
                self._clients[address] = self._connect(address)
            return self._clients[address]
