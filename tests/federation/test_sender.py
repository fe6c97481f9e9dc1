"""A sender whose links cannot be written: it is asked again without starting its fragment."""

import json
from pathlib import Path

import pytest

from penstock.federation.fragment_runner import Sender
from penstock.federation.link import UNFINISHED, DirectoryLinks, LinkError, LinkName


def a_sender(home: Path) -> Sender:
    checkpoint = home / "checkpoint"
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "a1-b2"}))  # as Spark writes it
    links = [[LinkName("load", "root", "links", replica) for replica in range(2)]]
    return Sender(
        DirectoryLinks(home / "links"), links, None, "ts", "rome@load", checkpoint, None, ""
    )


def test_a_sender_without_trouble_has_nothing_to_check(tmp_path: Path) -> None:
    (tmp_path / "links").touch()
    a_sender(tmp_path).check()


def test_a_sender_in_trouble_says_which_link_is_still_away(tmp_path: Path) -> None:
    sender = a_sender(tmp_path)
    sender.trouble = "a link cannot be written"
    second = DirectoryLinks(tmp_path / "links").directory(LinkName("load", "root", "links", 1))
    second.mkdir(parents=True)
    (second / UNFINISHED).touch()
    for _ in range(2):
        with pytest.raises(LinkError, match=rf"the link {second} cannot be written"):
            sender.check()
    (second / UNFINISHED).unlink()
    sender.check()
    assert list((second / UNFINISHED).iterdir()) == []  # what it tried is gone
