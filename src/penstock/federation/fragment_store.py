"""Keeps the orders of a site's fragments on disk, so that a site that is restarted goes on."""

import json
import logging
from pathlib import Path

from penstock.federation.ids import fragment_id
from penstock.federation.messages import FragmentOrder
from penstock.spark.record.sealed_lines import read_lines, sealed

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
        told = order.model_dump(mode="json", exclude_none=True)
        unfinished.write_text(sealed(told) + "\n")
        unfinished.replace(file)

    def forget(self, identity: str) -> None:
        """Deletes an order, if there is one."""
        self._file(identity).unlink(missing_ok=True)

    def all(self) -> list[FragmentOrder]:
        """Returns the orders on disk; one that cannot be read is left where it is, with a word."""
        found = []
        for file in sorted(self._directory.glob("*.json")):
            try:
                found.append(_order(file.read_bytes()))
            except (ValueError, OSError) as error:  # pydantic's are among them
                log.error("%s is no order that can be read, and is not run: %s", file, error)
        return found

    def _file(self, identity: str) -> Path:
        return self._directory / f"{identity}.json"


def _order(text: bytes) -> FragmentOrder:
    """Reads an order; raises where it is none, or was changed after it was written."""
    lines = list(read_lines(text))
    if len(lines) != 1 or lines[0].fault is not None:
        raise ValueError("it is damaged, or of another version of Penstock")
    return FragmentOrder.model_validate_json(json.dumps(lines[0].told))
