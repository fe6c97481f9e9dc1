"""Runs a job file as ``penstock run`` does, with a listener of Spark's own beside it."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.jobs.check import check
from penstock.jobs.load import load
from penstock.jobs.start import open_site, start
from penstock.lab.field.child import Lines, told_to_end
from penstock.lab.field.job import REPORT_SECONDS, Probe, conclude
from penstock.spark.session import session


def main(path: Path, lines: Lines) -> None:
    """Runs the job until it is told to end."""
    loaded = load(path)
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        session(Path(folder), "field", loaded.job.spark) as spark,
    ):
        spark.streams.addListener(Probe(lines))
        schemas = check(spark, loaded)
        with open_site(spark, loaded) as site:
            lines.tell("starting")
            queries = start(spark, loaded, site, schemas, Path(folder))
            while not told_to_end(REPORT_SECONDS):
                lines.tell("told", report=site.report().to_dict(), sic=site.sic())
                failed = [query.exception() for query in queries.values() if not query.isActive]
                if failed:
                    sys.exit(str(failed[0]))
            conclude(list(queries.values()), site, lines)


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    main(Path(spec["path"]), Lines(spec["lines"]))
