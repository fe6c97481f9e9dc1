"""Processes beside this one: they are asked to end, and killed if they do not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from penstock.federation.children import ChildProcess, end_all
from tests.federation.support import eventually

ORACLE = ["oracle", "--port", "0"]


def a_child(directory: Path, name: str = "oracle") -> ChildProcess:
    child = ChildProcess(name, [*ORACLE, "--directory", name], directory, {})
    eventually(lambda: "listens on" in child.said(), 30)
    return child


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_children_end_when_they_are_asked_to(tmp_path: Path) -> None:
    children = [a_child(tmp_path, name) for name in ("one", "two")]
    assert all(child.runs for child in children)
    assert end_all(children, 20) == []
    assert not any(child.runs or exists(child.pid) for child in children)


def test_a_child_that_does_not_end_is_killed_and_named(tmp_path: Path) -> None:
    child = a_child(tmp_path)
    os.kill(child.pid, signal.SIGSTOP)  # it cannot hear that it is asked to end
    began = time.monotonic()
    assert end_all([child], 0.5) == ["oracle"]
    assert time.monotonic() - began < 10
    assert not exists(child.pid)


def test_a_child_that_has_ended_is_left_alone_and_its_last_words_are_kept(tmp_path: Path) -> None:
    child = ChildProcess("oracle", [*ORACLE, "--key", "k.pem"], tmp_path, {})
    assert child.wait(30)
    assert "--certificate must come with --key" in child.last_words()
    assert end_all([child], 1) == []


def test_secrets_go_by_the_environment_and_not_by_arguments(tmp_path: Path) -> None:
    secret = "a-secret-of-a-child-0123"
    (tmp_path / "tokens.yaml").write_text("rome: ${SECRET_OF_ROME}\n")
    child = ChildProcess(
        "oracle", [*ORACLE, "--tokens", "tokens.yaml"], tmp_path, {"SECRET_OF_ROME": secret}
    )
    try:
        eventually(lambda: "listens on" in child.said(), 30)
        assert secret not in Path(f"/proc/{child.pid}/cmdline").read_text()
        assert secret not in child.said()
    finally:
        assert end_all([child], 20) == []
