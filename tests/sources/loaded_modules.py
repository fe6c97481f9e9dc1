"""A generator whose rows say which modules the worker that made them had loaded."""

from __future__ import annotations

import sys

from penstock import arrow as pa
from penstock.sources.generators import RecordBatch


class LoadedModules:
    schema = "modules STRING"

    def block(self, number: int) -> RecordBatch:
        del number
        modules = " ".join(sorted(sys.modules))
        batch: RecordBatch = pa.RecordBatch.from_pydict({"modules": [modules]})
        return batch
