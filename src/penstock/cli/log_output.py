"""Says where warnings and errors of a command go: lines of text, or of JSON for a log collector."""

import argparse
import json
import logging
import sys
from datetime import UTC, datetime

FORMS = ("text", "json")
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def add_log(parser: argparse.ArgumentParser) -> None:
    """Adds the option of a command that runs for long."""
    parser.add_argument(
        "--log",
        choices=FORMS,
        help="writes what happens to standard error, as lines of text or of JSON; warnings alone, "
        "and without their time, unless told",
    )


def log_to_stderr(form: str | None) -> None:
    """Has what Penstock logs written to standard error in this form; None changes nothing."""
    if form is None:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(TEXT))
    log = logging.getLogger("penstock")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON.

    >>> record = logging.LogRecord("penstock", logging.INFO, "", 0, "%d tuples", (3,), None)
    >>> json.loads(JsonLines().format(record))["message"]
    '3 tuples'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Writes time, level, logger, thread and message, and the traceback where there is one."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told)
