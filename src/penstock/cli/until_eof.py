"""Ends a process when whoever started it is gone, in whatever way that came to be.

The parent holds the other end of the standard input and never writes. When the parent dies, even
by SIGKILL, the system closes it.
"""

import os
import signal
import threading
import time

LONGEST_END_SECONDS = 60.0
"""How long an orphan may take to end in good order."""
STANDARD_INPUT = 0


def end_with_parent() -> None:
    """Has a thread wait for the end of the standard input, and terminate this process then."""
    threading.Thread(target=_wait_and_end, name="penstock-until-eof", daemon=True).start()


def _wait_and_end() -> None:
    try:
        while os.read(STANDARD_INPUT, 4096):
            pass
    except OSError:  # it was closed here, or never open
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LONGEST_END_SECONDS)
    os._exit(1)  # a JVM that was started here ends when it sees that this process has gone
