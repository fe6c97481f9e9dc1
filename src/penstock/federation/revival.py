"""Says when fragments that have failed are started again; nothing here has a clock.

A fragment fails where its link, its sink or its checkpoint cannot be reached for a while. Its site
starts it again from its checkpoint after an interval, and, as long as it goes on failing, after
twice as long each time, up to ``LONGEST_WAIT_INTERVALS``.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

LONGEST_WAIT_INTERVALS = 8
"""An outage is over for at most so long before its fragments go on."""
CALM_INTERVALS = 4
"""A fragment that has run for so long has recovered: if it fails again, it is soon tried again."""


class FailedFragment(NamedTuple):
    """Is a fragment that has just been found failed."""

    identity: str
    wait_seconds: float
    """How long from now it is started again."""


class Look(NamedTuple):
    """Is what there is to say, and what there is to do, after a look at the fragments."""

    failed: list[FailedFragment]
    """Those that ran when they were looked at last, or were tried again in vain."""
    due: list[str]
    """Those that are to be started again now."""


@dataclass
class _Patient:
    tries: int = 0
    due: float | None = None
    """When it is started again; None while it runs."""
    begun: float = 0.0
    """When it was started again last."""


class Revival:
    """Remembers which fragments of a site have failed, and how often."""

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._patients: dict[str, _Patient] = {}

    def look(self, failed: Collection[str], now: float) -> Look:
        """Hears which fragments have failed; is to be called about once an interval."""
        self._forget(failed, now)
        fresh, due = [], []
        for identity in failed:
            patient = self._patients.setdefault(identity, _Patient())
            if patient.due is None:
                wait = min(2**patient.tries, LONGEST_WAIT_INTERVALS) * self._interval
                patient.tries, patient.due = patient.tries + 1, now + wait
                fresh.append(FailedFragment(identity, wait))
            elif now >= patient.due:
                patient.due, patient.begun = None, now
                due.append(identity)
        return Look(fresh, due)

    def wait(self, identity: str, now: float) -> None:
        """Hears that what a fragment needs, which was due, is still away: it waits an interval."""
        self._patients[identity].due = now + self._interval

    def _forget(self, failed: Collection[str], now: float) -> None:
        """Forgets those that have recovered, or are gone."""
        calm = now - CALM_INTERVALS * self._interval
        for identity, patient in list(self._patients.items()):
            if identity not in failed and (patient.due is not None or patient.begun <= calm):
                del self._patients[identity]
