"""Who may call: tokens, rates, and what is never told."""

from __future__ import annotations

import json
import logging
import pickle
import string
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.federation.access import LOCAL_CALLER, Access, RateLimit, Rates
from penstock.federation.client import CallError, SiteClient
from penstock.federation.refusals import RefusedError
from penstock.federation.site_file import load_site
from penstock.federation.strict_json import parse
from tests.federation.support import TOKEN, SiteInMemory, calling, served

OTHER = "the-token-of-oslo-0123456789"
HOST = "127.0.0.1:7100"


def named(access: Access, authorization: str | None, host: str = HOST) -> str:
    return access.caller(authorization, host, "127.0.0.1", 0.0)


def test_a_caller_is_known_by_its_token() -> None:
    access = Access({"rome": TOKEN, "oslo": OTHER}, "0.0.0.0")
    assert named(access, f"Bearer {TOKEN}") == "rome"
    assert named(access, f"bearer {OTHER}") == "oslo"


@pytest.mark.parametrize(
    "given_",
    [None, "", "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer  {TOKEN}", f"Bearer {TOKEN}{OTHER}"],
)
def test_anything_but_a_token_is_refused(given_: str | None) -> None:
    with pytest.raises(RefusedError) as caught:
        named(Access({"rome": TOKEN}, "127.0.0.1"), given_)
    assert caught.value.status == 401


def test_this_machine_needs_no_token_if_none_is_configured() -> None:
    access = Access({}, "127.0.0.1")
    for host in (HOST, "localhost:7100", "localhost", "[::1]:7100", "127.0.0.2"):
        assert named(access, None, host) == LOCAL_CALLER


@pytest.mark.parametrize("host", ["", "evil.example:7100", "127.0.0.1.evil.example", "10.0.0.1"])
def test_a_web_page_cannot_call_this_machine_by_a_name_of_its_own(host: str) -> None:
    with pytest.raises(RefusedError) as caught:
        named(Access({}, "127.0.0.1"), None, host)
    assert caught.value.status == 403


def test_beyond_this_machine_nobody_comes_in_without_a_token() -> None:
    with pytest.raises(PenstockError, match="'accepts' names nobody"):
        Access({}, "0.0.0.0")


def test_two_callers_cannot_have_one_token() -> None:
    with pytest.raises(PenstockError, match="a token of its own") as caught:
        Access({"rome": TOKEN, "oslo": TOKEN}, "127.0.0.1")
    assert TOKEN not in str(caught.value)


def test_tokens_are_in_no_representation(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(f"site: rome\ndirectory: here\ntoken: {TOKEN}\naccepts: {{oslo: {OTHER}}}\n")
    file, _ = load_site(path)
    access = Access(file.accepts, file.host)
    client = SiteClient("http://127.0.0.1:1", file.token)
    told = f"{file!r} {file} {access!r} {vars(access)!r} {client!r} {vars(client)!r}"
    assert file.token == TOKEN
    assert TOKEN not in told
    assert OTHER not in told
    client.close()


@pytest.mark.parametrize(
    "line", ["token: tooshort-7", "token: 12345678", "accepts: {a: tooshort-7}"]
)
def test_a_token_that_is_too_short_is_told_without_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(f"site: rome\ndirectory: here\n{line}\n")
    with pytest.raises(PenstockError, match="a token of 16 to 256 characters") as caught:
        load_site(path)
    assert not {"tooshort", "12345678"} & set(str(caught.value).replace("-", " ").split())


def test_tokens_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    site = SiteInMemory()

    def breaks() -> None:
        raise RuntimeError("something inside")

    site.deploying_takes = breaks
    caplog.set_level(logging.DEBUG)
    with served(site, {"rome": TOKEN}) as server:
        said = []
        for token in (TOKEN, OTHER):
            with calling(server, token) as client:
                for call in (client.fragments, lambda: client.remove("a@b"), client.report):
                    try:
                        call()
                    except CallError as error:
                        said.append(str(error))
    assert said
    assert TOKEN not in caplog.text + "".join(said)
    assert OTHER not in caplog.text + "".join(said)


def test_a_bucket_lets_a_burst_through_and_then_the_rate() -> None:
    rates = Rates(RateLimit(per_second=2.0, burst=3.0))
    assert [rates.allow("a", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert rates.allow("b", 0.0)
    assert [rates.allow("a", 1.0) for _ in range(3)] == [True, True, False]
    assert [rates.allow("a", 100.0) for _ in range(4)] == [True, True, True, False]


@given(
    st.lists(st.floats(0, 10), max_size=60),
    st.floats(0.1, 10),
    st.integers(1, 10),
)
def test_no_more_than_the_burst_and_the_rate_are_let_through(
    pauses: list[float], per_second: float, burst: int
) -> None:
    rates, now, allowed = Rates(RateLimit(per_second, burst)), 0.0, 0
    for pause in pauses:
        now += pause
        allowed += rates.allow("a", now)
    assert allowed <= burst + per_second * now + 1e-6


def test_so_many_names_and_no_more_are_remembered() -> None:
    rates = Rates(RateLimit(1.0, 1.0), most_names=10)
    for number in range(1_000):
        assert rates.allow(f"address {number}", 0.0)
    assert len(pickle.dumps(rates.__dict__["_buckets"])) < 2_000
    assert not rates.allow("address 999", 0.0)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(string.printable, max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_sound_json_is_read_as_json_is(value: object) -> None:
    for characters in (True, False):
        assert parse(json.dumps(value, ensure_ascii=characters).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(RefusedError):
        parse(raw)
