"""Keeps the orders of a site's fragments on disk, so that a site that is restarted goes on."""

import logging
from pathlib import Path

from pydantic import ValidationError

from penstock.federation.ids import fragment_id
from penstock.federation.messages import FragmentOrder

log = logging.getLogger("penstock")


class FragmentStore:
    """Holds one file for each fragment that a site was asked to run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def keep(self, order: FragmentOrder) -> None:
        """Writes an order down; a crash leaves the old file or the new one."""
        file = self._file(fragment_id(order.fragment, order.query.query, order.replica))
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(order.model_dump_json(exclude_none=True))
        unfinished.replace(file)

    def forget(self, identity: str) -> None:
        """Deletes an order, if there is one."""
        self._file(identity).unlink(missing_ok=True)

    def all(self) -> list[FragmentOrder]:
        """Returns the orders on disk; one that cannot be read is left where it is, with a word."""
        found = []
        for file in sorted(self._directory.glob("*.json")):
            try:
                found.append(FragmentOrder.model_validate_json(file.read_text()))
            except (ValidationError, UnicodeDecodeError, OSError) as error:
                log.error("%s is no order that can be read, and is not run: %s", file, error)
        return found

    def _file(self, identity: str) -> Path:
        return self._directory / f"{identity}.json"
