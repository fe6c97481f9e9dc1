"""What a site can be asked to do; the server of a site passes requests on to it."""

from typing import Any, Protocol

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
    SiteStatistics,
)


class SiteControl(Protocol):
    """Is a site as its server sees it.

    Its methods are called from several threads at a time. Only ``deploy`` and ``remove`` may take
    long; the others must not wait for them. ``caller`` is the name that goes with the token, or
    ``LOCAL_CALLER`` (in ``access``) where this machine needs none; the server has checked the
    token and the form of a message, and that sequence numbers grow. Whether this caller may have
    what it asks for is the site's own decision. A method that will not raises a ``RefusedError``,
    which the server answers and counts; it must not count it itself. Of any other ``PenstockError``
    the text is answered, with the reason "not-possible".
    """

    def deploy(self, order: FragmentOrder, caller: str) -> FragmentAnswer:
        """Runs a fragment, and answers the columns of the link that it writes.

        An order may come again, since whoever gave it may not have heard the answer. If the
        fragment runs here already with the same query and incarnation, nothing is started, the
        answer is the same, and the order's ``places`` are in force from now on (of the root, they
        are what its coordinator goes by). A higher incarnation restarts it where it was. Another
        query of this name, or a lower incarnation, is refused with ``Reason.CONFLICT``.
        """

    def remove(self, fragment_id: str, caller: str) -> None:
        """Stops a fragment, and waits until its last batch is through.

        Its checkpoint and its links stay, since another site may go on from them. An id that it
        does not run is refused with ``Reason.UNKNOWN_FRAGMENT``.
        """

    def fragments(self) -> list[FragmentStatus]:
        """Answers the fragments that it was asked to run, and how they are."""

    def statistics(self) -> SiteStatistics:
        """Answers the statistics; ``refused`` is filled in by the server."""

    def update_sic(self, update: SicUpdate, caller: str) -> None:
        """Hears what a query's result is worth.

        A query of which it runs nothing is refused with ``Reason.UNKNOWN_QUERY``.
        """

    def inside(self) -> SiteInside:
        """Answers its gates and guards from inside, with the plan in force and why."""

    def set_terms(self, change: TermsChange, caller: str) -> TermsAnswer:
        """Gives a query another weight, floor or ceiling, from its next batch on.

        A query of which it runs nothing is refused with ``Reason.UNKNOWN_QUERY``.
        """

    def set_latency(self, change: LatencyChange, caller: str) -> LatencyAnswer:
        """Holds another latency from the next batch on."""

    def report(self) -> dict[str, Any]:
        """Answers the whole report, as JSON can hold it; ``refused`` is added by the server."""
