"""The broker of the field tests: ours, with its data after a crash, and gone without a trace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.errors import PenstockError
from penstock.lab.field import jars
from penstock.lab.field.broker import Broker
from tests.spark.support import wait_until


def test_a_killed_broker_comes_back_with_its_data_and_a_stopped_one_leaves_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beside the tests' own broker, so that it also shows that two get on with each other."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker() as own:
        assert own.address != broker.address
        own.create("kept", partitions=2)
        sender = Producer(own.client)
        for number in range(10):
            sender.produce("kept", b"x", partition=number % 2)
        assert sender.flush(30) == 0
        first, killed = own.address, own.process
        own.kill()
        assert own.process is None
        own.restart()
        assert own.process != killed
        assert own.address == first
        assert own.ends("kept") == {0: 5, 1: 5}
        last = own.process
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: not Path(f"/proc/{last}").exists(), 30, "the broker to end")


def test_a_broker_that_does_not_start_says_what_it_logged(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("penstock.lab.field.broker.JAVA_OPTIONS", ("-Xmx1k",))
    with pytest.raises(PenstockError, match="Too small maximum heap"):
        Broker()
    assert [path.suffix for path in tmp_path.iterdir()] == [".log"]
    assert broker.process is not None


@pytest.mark.parametrize("broken", ["no mvn", "mvn fails", "no room"])
def test_a_failed_download_says_what_to_do_and_leaves_no_half(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: str
) -> None:
    commands, cache = tmp_path / "bin", tmp_path / "cache"
    commands.mkdir()
    if broken == "mvn fails":
        (commands / "mvn").write_text("#!/bin/sh\necho no route to the registry; exit 1\n")
        (commands / "mvn").chmod(stat.S_IRWXU)
    if broken == "no room":
        cache.write_text("a file where the folder should be")
    monkeypatch.setenv("PENSTOCK_CACHE", str(cache))
    monkeypatch.setenv("PATH", str(commands) if broken == "no mvn" else f"{commands}:/usr/bin:/bin")
    told = {"no mvn": "apt-get install maven", "mvn fails": "no route to the registry"}
    with pytest.raises(PenstockError, match=told.get(broken, "PENSTOCK_CACHE")):
        jars.fetched()
    assert not jars.cache().exists()
    if broken != "no room":
        assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_what_is_in_the_cache_is_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that waited for another one's download finds it done."""
    commands = tmp_path / "bin"
    commands.mkdir()
    script = (
        f'#!/bin/sh\necho once >> "{tmp_path}/calls"\nfor last in "$@"; do :; done\n'
        'folder="${last#-DoutputDirectory=}"\nmkdir "$folder"\ntouch "$folder/a.jar"\n'
    )
    (commands / "mvn").write_text(script)
    (commands / "mvn").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    first, second = jars.fetched(), jars.fetched()
    assert first == second
    assert first.connector == str(jars.cache() / "connector" / "a.jar")
    assert (tmp_path / "calls").read_text().count("once") == len(jars.PARTS)
