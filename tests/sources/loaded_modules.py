"""A generator whose rows say which modules the worker that made them had loaded before."""

from __future__ import annotations

import sys
from functools import cached_property

from penstock import arrow as pa
from penstock.sources.generators import RecordBatch


class LoadedModules:
    schema = "modules STRING"

    def block(self, number: int) -> RecordBatch:
        del number
        return self._only_block

    @cached_property
    def _only_block(self) -> RecordBatch:
        """Made once: making it loads pandas."""
        modules = " ".join(sorted(sys.modules))
        batch: RecordBatch = pa.RecordBatch.from_pydict({"modules": [modules]})
        return batch
