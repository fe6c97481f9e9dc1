"""Serving from a thread: ports, signals, stopping, and TLS."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.client import CallError, SiteClient
from penstock.federation.refusals import Refusals
from penstock.federation.serving import ServedApp
from penstock.federation.site_file import CertificateEntry
from penstock.federation.site_server import site_app
from tests.federation.support import SiteInMemory, calling, served


def test_a_free_port_is_found_and_given_back() -> None:
    with served(SiteInMemory()) as first, served(SiteInMemory()) as second:
        assert first.port != second.port
        port = first.port
    with socket.create_server(("127.0.0.1", port)) as again:
        assert again.getsockname()[1] == port


def test_a_port_that_is_taken_is_told() -> None:
    app = site_app(SiteInMemory(), Access({}, "127.0.0.1"))
    with served(SiteInMemory()) as server:
        other = ServedApp(app, Refusals(), port=server.port)
        with pytest.raises(PenstockError, match=f"free to listen on; got 127.0.0.1:{server.port}"):
            other.start()


def test_signals_and_threads_are_left_as_they_were() -> None:
    handlers = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    threads = set(threading.enumerate())
    with served(SiteInMemory()) as server:
        assert httpx.get(f"{server.address}/health").status_code == 200
        assert {which: signal.getsignal(which) for which in handlers} == handlers
    assert {thread.name for thread in set(threading.enumerate()) - threads} <= {
        "AnyIO worker thread"  # they end by themselves
    }


def test_it_can_be_stopped_twice_and_before_it_has_started() -> None:
    server = ServedApp(site_app(SiteInMemory(), Access({}, "127.0.0.1")), Refusals())
    server.stop()
    with served(SiteInMemory()) as other:
        other.stop()


def test_nobody_there_is_told_with_the_address() -> None:
    with served(SiteInMemory()) as server:
        address = server.address
    client = SiteClient(address)
    with pytest.raises(CallError, match=f"GET {address}/fragments: no answer: .*refused") as caught:
        client.fragments()
    assert caught.value.status is None
    client.close()


@pytest.mark.parametrize("address", ["somewhere", "ftp://127.0.0.1", "http://127.0.0.1:port"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(PenstockError, match=f"an address|{address}"):
        SiteClient(address).fragments()


@pytest.fixture
def certificate(tmp_path: Path) -> CertificateEntry:
    key, file = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = (
        "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=penstock "
        "-addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        ["openssl", "req", *options.split(), "-keyout", str(key), "-out", str(file)],
        check=True,
        capture_output=True,
    )
    return CertificateEntry(certificate=str(file), key=str(key), authority=str(file))


def test_with_certificates_the_wire_is_encrypted_and_the_site_known(
    certificate: CertificateEntry,
) -> None:
    access = Access({}, "127.0.0.1")
    app = site_app(SiteInMemory(), access)
    with ServedApp(app, access.refusals, tls=certificate) as server:
        assert server.address.startswith("https://127.0.0.1:")
        client = SiteClient(server.address, tls=certificate)
        assert client.fragments() == []
        client.close()
        with calling(server) as trusting_nobody, pytest.raises(CallError, match="certificate"):
            trusting_nobody.fragments()
        plain = SiteClient(server.address.replace("https", "http"))
        with pytest.raises(CallError, match="no answer"):
            plain.fragments()
        plain.close()


def test_certificates_that_are_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "nothing.pem").write_text("nothing")
    path = str(tmp_path / "nothing.pem")
    wrong = CertificateEntry(certificate=path, key=path, authority=path)
    server = ServedApp(site_app(SiteInMemory(), Access({}, "127.0.0.1")), Refusals(), tls=wrong)
    with pytest.raises(PenstockError, match="'tls' must name a certificate and its key"):
        server.start()
    with pytest.raises(PenstockError, match=r"tls\.authority must be a PEM file"):
        SiteClient("https://127.0.0.1:1", tls=wrong)
