"""What a command says beside what Spark says."""

from __future__ import annotations

import logging
import os
import sys

import pytest

from penstock.cli.log_output import log_to_stderr
from penstock.spark.session import workspace

LOG = logging.getLogger("penstock")


@pytest.mark.parametrize("form", [None, "json"])
def test_what_penstock_warns_of_is_seen_and_what_spark_says_is_not(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str | None
) -> None:
    monkeypatch.setattr(LOG, "propagate", False)  # as in a process of a command
    monkeypatch.setattr(LOG, "handlers", [])
    monkeypatch.setattr(LOG, "level", LOG.level)
    log_to_stderr(form)
    before = list(LOG.handlers)
    with workspace("test", warns=True):
        os.write(2, b"the garbage collector\n")
        LOG.info("all is well")
        LOG.error("the link is away")
    said = capfd.readouterr().err
    assert "the link is away" in said
    assert "garbage" not in said
    assert ("all is well" in said) == (form is not None)
    assert LOG.handlers == before
    LOG.error("and after it")
    sys.stderr.flush()
    assert "and after it" in capfd.readouterr().err
