"""The page of whoever manages a host: who gets in, and what it shows."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hosts import host_on, make_homes, write_settings
from nexus.gateway.hosted import HostGateway
from nexus.gateway.listener import bind_socket
from nexus.hosting.host import Host
from nexus.hosting.limits import Limits
from nexus.testing import ModelServer


@pytest.fixture
async def host(tmp_path: Path, server: ModelServer) -> AsyncIterator[Host]:
    make_homes(tmp_path / "host", write_settings(tmp_path, server), "ada", "bob")
    async with host_on(tmp_path / "host") as host:
        yield host


@pytest.fixture
async def browser(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    with bind_socket("127.0.0.1", 0) as listening:
        async with HostGateway(host, listening) as gateway:
            url = f"http://127.0.0.1:{gateway.port}"
            async with httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=60) as client:
                yield client


async def enter(browser: httpx.AsyncClient, token: str) -> httpx.Response:
    return await browser.post("/login", data={"token": token})


async def test_the_page_shows_homes_with_their_limits_and_problems(
    host: Host, browser: httpx.AsyncClient
) -> None:
    ada, bob = host.registry.named("ada"), host.registry.named("bob")
    host.registry.set_limits(ada.id, Limits(rate_per_s=7))
    host.registry.failed(bob.id, "The disk is <full>")
    entered = await enter(browser, host.registry.new_token(None, "admin"))
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = (await browser.get("/")).text
    assert "2 homes" in page
    assert "7 requests/s" in page
    assert "The disk is &lt;full&gt;" in page
    assert (await browser.get("/static/style.css")).status_code == 200


async def test_only_an_admin_token_opens_the_page(host: Host, browser: httpx.AsyncClient) -> None:
    ada = host.registry.named("ada")
    for token in ("", "x" * 43, host.registry.new_token(ada.id, "full")):
        assert (await enter(browser, token)).status_code == 401
        browser.cookies.set("nexus_admin", token)
        shown = await browser.get("/")
        assert (shown.status_code, "ada" in shown.text, "Admin token" in shown.text) == (401, False, True)
        assert (await browser.get("/api/homes")).status_code == 401
        assert (await browser.get("/static/style.css")).status_code == 401
        browser.cookies.clear()


async def test_a_revoked_token_and_a_logout_end_the_session(host: Host, browser: httpx.AsyncClient) -> None:
    await enter(browser, host.registry.new_token(None, "admin"))
    assert (await browser.get("/")).status_code == 200
    host.registry.new_token(None, "admin", rotate=True)
    assert (await browser.get("/")).status_code == 401
    await enter(browser, host.registry.new_token(None, "admin"))
    assert (await browser.post("/logout")).status_code == 303
    assert (await browser.get("/")).status_code == 401


async def test_another_site_can_use_neither_the_cookie_nor_the_form(
    host: Host, browser: httpx.AsyncClient
) -> None:
    token = host.registry.new_token(None, "admin")
    foreign = {"origin": "https://evil.example"}
    assert (await browser.post("/login", data={"token": token}, headers=foreign)).status_code == 403
    await enter(browser, token)
    assert (await browser.delete("/api/homes/ada", headers=foreign)).status_code == 403
    assert (await browser.get("/api/homes", headers={"sec-fetch-site": "same-site"})).status_code == 403
    assert host.registry.find("ada") is not None
