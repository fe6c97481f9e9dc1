"""Finds out whether a place is one that all machines of a cluster see.

Executors write state into checkpoints, and rows into the links of a federation. On one machine any
directory will do. On a cluster a directory of the driver's own disk will not: each executor would
write to its own, where nobody looks. So the driver writes a file, and an executor reads it, before
anything starts.
"""

from uuid import uuid4

from penstock.errors import PenstockError
from penstock.spark.engine import Engine


def check_shared(engine: Engine, name: str, location: str) -> None:
    """Raises an error where executors do not see what the driver writes to ``location``."""
    if engine.on_one_machine:
        return
    files, probe = engine.files(location), f"penstock-probe-{uuid4()}"
    files.write(probe, probe)
    try:
        engine.spark.read.text(f"{location}/{probe}").collect()
    except Exception as error:  # Spark has no one kind of them for a task that finds no file
        why = str(error).strip().partition("\n")[0]
        raise PenstockError(
            f"{name} must be a directory that all machines of the cluster share, such as "
            f"hdfs://namenode/penstock; got {location!r}, which only the driver sees: {why}"
        ) from None
    finally:
        files.remove(probe)
