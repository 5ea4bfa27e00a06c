"""What every request passes first."""

import base64
import hashlib
import re

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from nexus.gateway.guard import BodyLimits, Guard, Keys, Rules, public_address

TOKEN = "t" * 43
HOST = "127.0.0.1:7807"
URL = f"http://{HOST}"
BEARER = {"authorization": f"Bearer {TOKEN}"}
MOST_BYTES = 1_000


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what it was sent: only what the guard lets through gets here."""
    request = Request(scope, receive)
    body = await request.body()
    await JSONResponse({"reached": True, "bytes": len(body)})(scope, receive, send)


@pytest.fixture
def keys() -> Keys:
    return Keys(TOKEN)


@pytest.fixture
def client(keys: Keys) -> httpx.AsyncClient:
    return asking(keys)


async def is_signed(name: str, headers: Headers, body: bytes) -> bool:
    return name == "desk" and headers.get("signature") == "right"


def asking(keys: Keys, rate_per_s: int = 100, public_url: str = "") -> httpx.AsyncClient:
    body = BodyLimits(most_bytes=MOST_BYTES, timeout_ms=1_000)
    public = public_address(public_url)
    hosts = {HOST, "localhost:7807", *([public.host] if public else [])}
    rules = Rules(hosts=frozenset(hosts), public=public, rate_per_s=rate_per_s, body=body)
    transport = httpx.ASGITransport(Guard(echo, keys, rules, is_signed))
    return httpx.AsyncClient(transport=transport, base_url=URL)


async def logged_in(client: httpx.AsyncClient, keys: Keys) -> None:
    answer = await client.get("/login", params={"code": keys.new_code()})
    assert answer.status_code == 200


async def test_the_token_opens(client: httpx.AsyncClient) -> None:
    answer = await client.post("/anything", headers=BEARER, content=b"12345")
    assert answer.json() == {"reached": True, "bytes": 5}


@pytest.mark.parametrize(
    "path", ["/", "/api/openapi.json", "/metrics", "/nothing", "/login", "/login?code=x"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "DELETE"])
async def test_nothing_is_told_without_the_token(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 401
    assert "reached" not in answer.text


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"]
)
async def test_what_is_not_the_token_does_not_open(client: httpx.AsyncClient, value: str) -> None:
    answer = await client.get("/", headers={"authorization": value})
    assert answer.status_code == 401
    assert answer.json()["hint"]


async def test_a_browser_is_told_in_a_page_how_to_get_in(client: httpx.AsyncClient) -> None:
    answer = await client.get("/", headers={"accept": "text/html,*/*"})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "<code>nexus login</code>" in answer.text
    style = re.search(r"<style>(.*)</style>", answer.text)
    assert style is not None
    allowed = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{allowed}'" in answer.headers["content-security-policy"]


async def test_a_login_link_gives_a_session_that_scripts_cannot_read(
    client: httpx.AsyncClient, keys: Keys
) -> None:
    answer = await client.get("/login", params={"code": keys.new_code()})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await client.get("/")).json()["reached"]


async def test_a_foreign_name_is_refused_even_with_the_token(client: httpx.AsyncClient) -> None:
    for host in ("evil.example", "evil.example:7807", "127.0.0.1", "127.0.0.1:80", ""):
        answer = await client.get("/", headers={**BEARER, "host": host})
        assert answer.status_code == 421, host


async def test_a_foreign_page_is_refused_even_with_the_token(client: httpx.AsyncClient) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:3000", f"http://{HOST}.evil.example"):
        answer = await client.get("/", headers={**BEARER, "origin": origin})
        assert answer.status_code == 403, origin


async def test_a_session_acts_only_from_its_own_pages(client: httpx.AsyncClient, keys: Keys) -> None:
    await logged_in(client, keys)
    assert (await client.post("/")).status_code == 403
    assert (await client.post("/", headers={"origin": URL})).status_code == 200
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        assert (await client.get("/", headers=headers)).status_code == 403, site
        assert (await client.post("/", headers={**headers, "origin": URL})).status_code == 403, site


PROXY = {"host": "nexus.example"}


async def test_behind_a_proxy_with_tls_cookies_are_secure_and_only_its_pages_act(keys: Keys) -> None:
    client = asking(keys, public_url="https://nexus.example")
    entered = await client.get("/login", params={"code": keys.new_code()}, headers=PROXY)
    assert "; Secure" in entered.headers["set-cookie"]
    cookie = entered.headers["set-cookie"].partition(";")[0]
    for origin, status in (
        ("https://nexus.example", 200),
        ("http://nexus.example", 403),
        ("https://nexus.example:8443", 403),
        ("https://evil.example", 403),
        (URL, 403),
    ):
        headers = {**PROXY, "cookie": cookie, "origin": origin}
        assert (await client.post("/", headers=headers)).status_code == status, origin
    # A proxy that puts its own name in the place of the browser's.
    headers = {"cookie": cookie, "origin": "https://nexus.example"}
    assert (await client.post("/", headers=headers)).status_code == 200


async def test_on_loopback_a_cookie_is_not_secure_even_with_a_proxy_elsewhere(keys: Keys) -> None:
    client = asking(keys, public_url="https://nexus.example")
    entered = await client.get("/login", params={"code": keys.new_code()})
    assert "Secure" not in entered.headers["set-cookie"]
    assert (await client.post("/", headers={"origin": URL})).status_code == 200


async def test_a_browser_that_was_logged_out_is_a_stranger(client: httpx.AsyncClient, keys: Keys) -> None:
    await logged_in(client, keys)
    keys.browsers.end(client.cookies[keys.cookie])
    assert (await client.get("/")).status_code == 401


async def test_a_cookie_is_not_the_token_and_no_token(client: httpx.AsyncClient, keys: Keys) -> None:
    await logged_in(client, keys)
    secret = client.cookies[keys.cookie]
    client.cookies.clear()
    assert secret != TOKEN
    assert (await client.get("/", headers={"authorization": f"Bearer {secret}"})).status_code == 401
    for name in ("nexus", keys.cookie.replace("_0_", "_1_")):
        assert (await client.get("/", headers={"cookie": f"{name}={secret}"})).status_code == 401
    assert (await client.get("/", headers={"cookie": f"{keys.cookie}={TOKEN}"})).status_code == 401


async def test_what_is_too_large_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post("/", headers=BEARER, content=b"x" * MOST_BYTES)).status_code == 200
    refused = await client.post("/", headers=BEARER, content=b"x" * (MOST_BYTES + 1))
    assert refused.status_code == 413
    assert "max_body_bytes" in refused.json()["hint"]


async def test_too_many_requests_at_once_are_refused(keys: Keys) -> None:
    client = asking(keys, rate_per_s=1)
    statuses = [(await client.get("/", headers=BEARER)).status_code for _ in range(12)]
    assert statuses[:5] == [200] * 5
    assert 429 in statuses


async def test_guessing_is_slowed_and_does_not_lock_the_owner_out(client: httpx.AsyncClient) -> None:
    wrong = {"authorization": "Bearer wrong"}
    statuses = [(await client.get("/", headers=wrong)).status_code]
    while statuses[-1] == 401:
        assert len(statuses) < 1_000
        statuses.append((await client.get("/", headers=wrong)).status_code)
    assert statuses[-1] == 429
    assert (await client.get("/", headers=BEARER)).status_code == 200


async def test_answers_forbid_framing_and_guessing_of_types(client: httpx.AsyncClient) -> None:
    answer = await client.get("/", headers=BEARER)
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


async def test_unsigned_hooks_use_up_nothing_of_the_owners_rate(keys: Keys) -> None:
    client = asking(keys, rate_per_s=1)
    refused = [(await client.post("/hooks/desk", content=b"{}")).status_code for _ in range(60)]
    assert set(refused) == {401, 429}
    assert (await client.get("/", headers=BEARER)).status_code == 200
    signed = {"signature": "right"}
    assert (await client.post("/hooks/desk", content=b"{}", headers=signed)).json()["reached"]
    assert (await client.post("/hooks/other", content=b"{}", headers=signed)).status_code in {401, 429}


async def test_signed_hooks_are_counted(keys: Keys) -> None:
    client = asking(keys, rate_per_s=1)
    signed = {"signature": "right"}
    codes = [(await client.post("/hooks/desk", headers=signed)).status_code for _ in range(12)]
    assert set(codes) == {200, 429}
