"""Who gets nothing from a home that is really served: each way in that is not the owner's is refused."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from acceptance.program import nexus
from acceptance.running import Served, serving
from nexus.home import Home

PATIENCE_S = 60
_ENV = {
    "NEXUS_GATEWAY_MAX_BODY_BYTES": "100000",
    "NEXUS_GATEWAY_BODY_TIMEOUT_MS": "2000",
    "NEXUS_GATEWAY_PUBLIC_URL": "https://nexus.example",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    place = tmp_path_factory.mktemp("served") / "home"
    assert nexus(place, "init").returncode == 0
    return Home(place)


@pytest.fixture(scope="module")
def served(home: Home) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENV.items():
            patch.setenv(name, value)
        with serving(home) as served:
            yield served


def asked(served: Served, token: str | None = None, **headers: str) -> httpx.Response:
    given = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.get(f"{served.url}/api/home", headers={**given, **headers}, timeout=PATIENCE_S)


def raw(served: Served) -> socket.socket:
    place = urlsplit(served.url)
    return socket.create_connection((place.hostname or "", place.port or 0), timeout=PATIENCE_S)


def rest(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    said = b""
    while part := connection.recv(4096):
        said += part
    return said


def test_the_token_of_the_home_opens_it(home: Home, served: Served) -> None:
    answer = asked(served, home.token())
    assert answer.status_code == 200
    assert answer.json()["home"] == home.identity()


def test_a_wrong_token_is_refused(served: Served) -> None:
    assert asked(served, "w" * 43).status_code == 401


def test_no_token_is_refused_whatever_is_asked_for(served: Served) -> None:
    for path in ("/", "/api/home", "/api/openapi.json", "/docs", "/metrics", "/mcp", "/nothing", "/login"):
        answer = httpx.get(f"{served.url}{path}", timeout=PATIENCE_S)
        assert (answer.status_code, answer.json()["title"] != "") == (401, True), path


def test_the_token_of_another_home_is_refused(served: Served, tmp_path: Path) -> None:
    assert nexus(tmp_path / "other", "init").returncode == 0
    assert asked(served, Home(tmp_path / "other").token()).status_code == 401


def test_a_foreign_origin_is_refused_even_with_the_token(home: Home, served: Served) -> None:
    assert asked(served, home.token(), origin="https://evil.example").status_code == 403
    assert asked(served, home.token(), origin="null").status_code == 403
    assert asked(served, home.token(), origin=served.url).status_code == 200


def test_a_name_that_was_made_to_point_here_is_refused(home: Home, served: Served) -> None:
    port = urlsplit(served.url).port
    for host in (f"evil.example:{port}", "evil.example", f"127.0.0.1.evil.example:{port}"):
        assert asked(served, home.token(), host=host).status_code == 421, host
    assert asked(served, home.token(), host=f"localhost:{port}").status_code == 200


def test_a_proxy_in_front_is_known_by_its_address(home: Home, served: Served) -> None:
    proxy = {"host": "nexus.example", "origin": "https://nexus.example"}
    assert asked(served, home.token(), **proxy).status_code == 200
    assert asked(served, home.token(), **{**proxy, "origin": "http://nexus.example"}).status_code == 403
    assert asked(served, home.token(), host="nexus.example:8443").status_code == 421


def test_a_login_link_leads_to_the_proxy_and_works_once(served: Served) -> None:
    assert served.told["login_url"].startswith("https://nexus.example/login?code=")
    link = served.told["login_url"].replace("https://nexus.example", served.url)
    with httpx.Client(timeout=PATIENCE_S) as browser:
        assert browser.get(link).status_code == 200
        assert browser.get(f"{served.url}/api/home").status_code == 200
        acting = f"{served.url}/api/login-links"
        assert browser.post(acting).status_code == 403, "a form of another page has no Origin of ours"
        assert browser.post(acting, headers={"origin": served.url}).status_code == 201
        assert browser.post(f"{served.url}/logout", headers={"origin": served.url}).status_code == 200
        assert browser.get(f"{served.url}/api/home").status_code == 401
    assert httpx.get(link, timeout=PATIENCE_S).status_code == 401


def test_a_session_that_was_ended_is_worth_nothing_where_it_was_kept(home: Home, served: Served) -> None:
    answer = httpx.post(
        f"{served.url}/api/login-links",
        headers={"authorization": f"Bearer {home.token()}"},
        timeout=PATIENCE_S,
    )
    link = answer.json()["url"].replace("https://nexus.example", served.url)
    with httpx.Client(timeout=PATIENCE_S) as browser:
        browser.get(link)
        ((name, secret),) = browser.cookies.items()
        assert str(urlsplit(served.url).port) in name
        assert home.token() not in (name, secret)
        browser.post(f"{served.url}/logout", headers={"origin": served.url})
    kept = {"cookie": f"{name}={secret}"}
    assert httpx.get(f"{served.url}/api/home", headers=kept, timeout=PATIENCE_S).status_code == 401


def test_an_oversized_body_is_refused(home: Home, served: Served) -> None:
    answer = httpx.post(
        f"{served.url}/api/messages",
        headers={"authorization": f"Bearer {home.token()}"},
        json={"text": "x" * 200_000},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 413


def test_an_oversized_body_without_a_token_is_not_even_read(served: Served) -> None:
    with raw(served) as connection:
        head = f"POST /api/messages HTTP/1.1\r\nhost: {urlsplit(served.url).netloc}\r\n"
        connection.sendall(f"{head}content-length: 10000000000\r\n\r\n".encode())
        assert rest(connection).startswith(b"HTTP/1.1 401")


def test_a_head_that_dawdles_is_cut_off(served: Served) -> None:
    began = time.monotonic()
    with raw(served) as connection:
        connection.sendall(b"GET /api/home HTTP/1.1\r\n")
        assert b"200" not in rest(connection)
    assert time.monotonic() - began < PATIENCE_S


def test_a_body_that_dawdles_is_cut_off(home: Home, served: Served) -> None:
    with raw(served) as connection:
        head = f"POST /api/messages HTTP/1.1\r\nhost: {urlsplit(served.url).netloc}\r\n"
        token = f"authorization: Bearer {home.token()}\r\ncontent-type: application/json\r\n"
        connection.sendall(f"{head}{token}content-length: 100\r\n\r\n{{".encode())
        assert rest(connection).startswith(b"HTTP/1.1 408")


def test_many_that_dawdle_keep_nobody_else_out(home: Home, served: Served) -> None:
    waiting = [raw(served) for _ in range(100)]
    try:
        for connection in waiting:
            connection.sendall(b"GET /api/home HTTP/1.1\r\nx-slow: ")
        assert asked(served, home.token()).status_code == 200
    finally:
        for connection in waiting:
            connection.close()


def test_a_second_one_is_told_who_serves_the_home(home: Home, served: Served) -> None:
    done = nexus(home.root, "up")
    assert done.returncode == 1
    assert f"process {served.pid} at {served.url}" in done.stderr
    assert "nexus login" in done.stderr


def test_nothing_that_is_written_down_holds_the_token(home: Home, served: Served) -> None:
    asked(served, home.token())
    token = home.token().encode()
    written = [path for path in home.root.rglob("*") if path.is_file() and path != home.token_file]
    assert [path for path in written if token in path.read_bytes()] == []
