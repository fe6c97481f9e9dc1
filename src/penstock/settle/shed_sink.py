"""Writes the tuples that were shed, and nothing else."""

from typing import Any

from penstock.settle.past_stream import Budget, PastStream
from penstock.settle.settled_rows import WholeFolders
from penstock.settle.shed_tuples import BATCH, SHED, decided


def write_shed(stream: PastStream, place: str, budget: Budget) -> dict[str, Any]:
    """Writes the tuples that were shed to a place, as they came, each with its batch."""
    folders, written = WholeFolders(stream.engine, place), 0
    done = folders.all_of("batches")
    portions = stream.those_that_shed(done)
    while portions and not budget.is_over:
        batches = portions.pop(0)
        with decided(stream.engine, stream.keys, stream.past, stream.again, batches) as tuples:
            folders.stage(tuples.where(SHED).drop(SHED))
        counted = folders.staged().groupBy(BATCH).count().collect()
        there = {int(row[0]): int(row[1]) for row in counted}
        shed = {batch: stream.past.shed[batch] for batch in batches}
        if there == shed:
            note = {"query": stream.query, "batches": batches, "tuples": sum(shed.values())}
            folders.commit(f"batches-{batches[0]}", note)
            written += sum(shed.values())
            continue
        wrong = [batch for batch in batches if there.get(batch, 0) != shed[batch]]
        for batch in wrong:
            found = f"{there.get(batch, 0):,} of the {shed[batch]:,} that were shed are there now"
            stream.lose(batch, found)
        if right := [batch for batch in batches if batch not in wrong]:
            portions.insert(0, right)
    lost = [its for its in stream.lost.values() if its.shed and its.batch not in done]
    return {
        "query": stream.query,
        "into": place,
        "shed": sum(stream.past.shed.values()),
        "written": sum(note["tuples"] for note in folders.notes().values()),
        "written_now": written,
        "lost_tuples": sum(its.shed for its in lost),
        "lost": stream.told_lost(set()),
        "out_of_time": bool(portions),
        "seconds": round(budget.spent, 3),
    }
