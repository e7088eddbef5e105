"""A server on the master's port must be the master: any other server there learns nothing and is not obeyed."""

from __future__ import annotations

import socket
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from controller.agent.link import NO_MASTER, Link, OrderFilter
from controller.client import MasterClient
from controller.home import Home
from controller.machine.authority import certify, names_of
from controller.machine.http import HttpAnswer, to_master
from stage_model.errors import BadInput, Unavailable
from tests.fakes.master import serving
from tests.fakes.tls import Squatter, make_ca, squatting

TOKEN = "a-token-that-no-one-else-may-see"


@pytest.fixture
def home(home: Home) -> Home:
    make_ca(home)
    return home


def ask(squatter: Squatter, home: Home) -> None:
    MasterClient(squatter.url, home.ca_file, TOKEN).workers()


def ask_anything(url: str, ca: Path) -> HttpAnswer:
    with closing(to_master(url, ca, 10.0)) as connection:
        return connection.ask("GET", "/", None, {})


def sync(squatter: Squatter, home: Home) -> None:
    link = Link(squatter.url, home.ca_file, lambda: TOKEN, "w1", OrderFilter("c"), lambda: None)
    link._call(link._reports, "POST", "/v1/workers/w1/sync", b"{}")


@pytest.mark.parametrize("say", [ask, sync])
@pytest.mark.parametrize("dressed", ["plainly", "of another CA", "as another CA"])
def test_a_program_that_squats_the_port_learns_nothing_and_is_refused(
    dressed: str, say: Callable[[Squatter, Home], None], home: Home, tmp_path: Path
) -> None:
    other = Home(tmp_path / "other")
    other.create()
    make_ca(other)
    dress = {"plainly": None, "of another CA": other.master_certificate, "as another CA": other.ca_key_file}
    with squatting(dress[dressed]) as squatter, pytest.raises(Unavailable, match=str(home.ca_file)):
        say(squatter, home)
    assert Unavailable in NO_MASTER
    assert squatter.secret == b""
    assert TOKEN.encode() not in squatter.plain


def test_a_master_is_known_by_its_ca_under_all_of_its_names(home: Home) -> None:
    with serving(home) as master:
        for host in ("127.0.0.1", "localhost"):
            assert ask_anything(f"https://{host}:{master.server_port}", home.ca_file).status == 401
    certify(home.ca_key_file, home.ca_file, home.master_certificate, ["elsewhere.example"])
    with squatting(home.master_certificate) as other, pytest.raises(Unavailable, match=str(home.ca_file)):
        ask_anything(other.url, home.ca_file)


def test_the_ca_outlives_the_master_and_its_certificate_does_not(home: Home) -> None:
    first, ca, public = home.master_certificate.read_bytes(), home.ca_key_file.read_bytes(), home.ca_file.read_bytes()
    home.ca_file.unlink()
    make_ca(home)
    assert (home.ca_key_file.read_bytes(), home.ca_file.read_bytes()) == (ca, public)
    assert home.master_certificate.read_bytes() != first
    for file in (home.ca_key_file, home.ca_file, home.master_certificate):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"PRIVATE KEY" in ca
    assert b"PRIVATE KEY" not in public


@pytest.mark.parametrize("content", [b"", b"no PEM\n", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_damaged_ca_is_named(content: bytes, home: Home) -> None:
    home.ca_key_file.write_bytes(content)
    with pytest.raises(Unavailable, match=str(home.ca_key_file)):
        make_ca(home)
    home.ca_file.write_bytes(content)
    with pytest.raises(Unavailable, match=str(home.ca_file)):
        ask_anything("https://127.0.0.1:1", home.ca_file)


def test_a_key_of_one_ca_does_not_fit_the_certificate_of_another(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.create()
    make_ca(other)
    cut = home.ca_key_file.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")[0]
    home.ca_key_file.write_bytes(cut + other.ca_file.read_bytes())
    with pytest.raises(Unavailable, match=str(home.ca_key_file)):
        make_ca(home)


def test_a_missing_ca_file_is_named_with_its_origin(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"{tmp_path}/ca.pem.*sparkpace up"):
        ask_anything("https://127.0.0.1:1", tmp_path / "ca.pem")


@pytest.mark.parametrize("url", ["http://127.0.0.1:7070", "127.0.0.1:7070", "https://"])
def test_a_url_without_tls_is_refused(url: str, home: Home) -> None:
    with pytest.raises(BadInput, match=r"https://127\.0\.0\.1:7070"):
        MasterClient(url, home.ca_file)


def test_a_master_that_listens_for_others_is_called_by_each_of_this_machines_addresses() -> None:
    assert names_of("10.0.0.5", ["gate.example"]) == ("localhost", "127.0.0.1", "::1", "10.0.0.5", "gate.example")
    everywhere = names_of("0.0.0.0")
    assert socket.gethostname() in everywhere
    assert {"127.0.0.1", "::1"} <= set(everywhere)


def test_the_names_may_be_of_any_kind(home: Home) -> None:
    certify(home.ca_key_file, home.ca_file, home.master_certificate, names_of("::1", ["a-b.example", "10.1.2.3"]))


def test_a_connection_may_have_less_time_to_open_than_a_request_has_for_its_answer(home: Home) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        closing(to_master(f"https://127.0.0.1:{mute.getsockname()[1]}", home.ca_file, 600.0, 0.2)) as connection,
        pytest.raises(TimeoutError),
    ):
        connection.ask("GET", "/", None, {})
    with serving(home) as master, closing(to_master(master.url, home.ca_file, 600.0, 30.0)._connect()) as opened:
        assert opened.sock.gettimeout() == 600.0
