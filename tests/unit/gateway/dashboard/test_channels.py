"""Channels in the browser: their state, and what can be done about it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace

import apsw
import httpx
import pytest

from nexus import config
from nexus.app import App
from nexus.channels import setup
from nexus.channels.setup import LoginCheck
from nexus.config import ChannelConfig, Config
from nexus.gateway.dashboard.pages import channels as pages
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.server import build
from nexus.home import Home
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.runtime import channels as ledger
from ports import free_port
from telegram_server import TOKEN, TelegramServer
from unit.gateway.dashboard.conftest import URL


@pytest.fixture
async def app(home: Home) -> AsyncIterator[App]:
    """A home with a channel, that does no work."""
    desk = ChannelConfig(kind="webhook", secret="env:NOTHING")
    async with App(home, Config(channels={"desk": desk}), serve=False) as app:
        yield app


async def _paused(app: App) -> bool:
    return (await app.ledgers.runtime.read(ledger.state, name="desk")).paused


async def test_a_channel_is_paused_and_resumed(client: httpx.AsyncClient, app: App) -> None:
    await app.ledgers.runtime.write(ledger.note_status, name="desk", status="waiting", reason="it is <away>")
    shown = (await client.get("/channels")).text
    assert "desk" in shown
    assert "it is &lt;away&gt;" in shown
    assert (await client.post("/channels/desk/pause")).status_code == 303
    assert await _paused(app)
    assert "Resume" in (await client.get("/channels")).text
    assert (await client.post("/channels/desk/resume")).status_code == 303
    assert not await _paused(app)
    assert (await client.post("/channels/desk/retry")).status_code == 303
    assert (await client.post("/channels/desk/explode")).status_code == 400
    assert (await client.post("/channels/other/pause")).status_code == 404


async def test_a_missing_package_is_named_before_anything_is_typed(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "isn&#39;t installed" not in (await client.get("/channels/new/email")).text

    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr(setup, "find_spec", find_nothing)
    shown = await client.get("/channels/new/email")
    assert shown.status_code == 200
    assert "nexus-runtime[email]" in shown.text
    assert "isn&#39;t installed" not in (await client.get("/channels/new/telegram")).text


async def test_a_channel_is_added_and_tested(app: App, keys: Keys, home: Home) -> None:
    telegram, restarts = TelegramServer(), list[bool]()
    try:
        telegram.write("It is me")
        async with AsyncExitStack() as stack:
            served = Served(app, keys, stack, restart=lambda: restarts.append(True))
            transport = httpx.ASGITransport(build(served))
            client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))
            assert "Bot token" in (await client.get("/channels/new/telegram")).text
            wrong = {"secret": "1:wrong", "url": telegram.url}
            refused = await client.post("/channels/new/telegram", data=wrong)
            assert "token is wrong" in refused.text
            assert (restarts, "telegram" in config.load(home.config_file).channels) == ([], False)
            assert not any(home.secrets.glob("*"))
            added = await client.post("/channels/new/telegram", data={**wrong, "secret": TOKEN})
            assert added.headers["location"].startswith("/channels?added=telegram&said=Connected")
            stored = config.load(home.config_file)
            assert (restarts, stored.channels["telegram"].owner) == ([True], ("7",))
            assert TOKEN not in home.config_file.read_text()
            app.config = stored
            assert "Connected as @nexus_agent_bot" in (await client.post("/channels/telegram/test")).text
            app.config = replace(stored, channels={**stored.channels, "older": stored.channels["telegram"]})
            shown = (await client.get(added.headers["location"])).text
            assert "Connected as @nexus_agent_bot" in shown
            assert shown.count(">connecting<") == 1
            for name in ("cli", "new", "a/b"):
                refused = await client.post("/channels/new/telegram", data={"secret": TOKEN, "name": name})
                assert "can&#39;t be called" in refused.text
    finally:
        telegram.close()


async def test_the_owner_says_which_mail_server_checks_senders(
    app: App, keys: Keys, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def log_in(*_: object) -> LoginCheck:
        return LoginCheck(said=("The newest mail says that mx.evil.example checked who sent it.",))

    monkeypatch.setattr(pages, "check_login", log_in)
    async with AsyncExitStack() as stack:
        served = Served(app, keys, stack, restart=lambda: None)
        transport = httpx.ASGITransport(build(served))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))
        given = {"address": "agent@example.org", "secret": "hidden-word", "owner": "me@example.org"}
        refused = await client.post("/channels/new/email", data=given)
        assert "The newest mail says that mx.evil.example checked" in refused.text
        assert not any(home.secrets.glob("*"))
        await client.post("/channels/new/email", data={**given, "auth_server": "mx.example.org"})
    assert config.load(home.config_file).channels["email"].auth_server == "mx.example.org"


async def test_a_mail_server_on_this_machine_may_be_used_without_tls(app: App, keys: Keys) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            writer.write(b"* OK hello\r\n")
            while line := await reader.readline():
                tag, command, *_ = line.split()
                offers = b"* CAPABILITY IMAP4rev1\r\n" if command == b"CAPABILITY" else b""
                writer.write(offers + tag + (b" OK done\r\n" if offers else b" NO not today\r\n"))

    async with AsyncExitStack() as stack:
        port = free_port()
        await stack.enter_async_context(await asyncio.start_server(refuse, "127.0.0.1", port))
        served = Served(app, keys, stack, restart=lambda: None)
        transport = httpx.ASGITransport(build(served))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))
        place = f"127.0.0.1:{port}"
        typed = {"address": "a@b.example", "secret": "env:HOME", "imap": place, "smtp": place}
        refused = (await client.post("/channels/new/email", data=typed)).text
        assert "encrypt the connection" in refused
        assert "also connect without encryption" in refused
        answered = (await client.post("/channels/new/email", data={**typed, "no_tls": "1"})).text
        assert "refused the password" in answered
        assert 'name="no_tls" value="1" checked' in answered
        elsewhere = {**typed, "imap": "imap.example.org", "no_tls": "1"}
        assert (
            "Only a server on this machine" in (await client.post("/channels/new/email", data=elsewhere)).text
        )


async def test_a_message_that_was_set_aside_can_be_removed(client: httpx.AsyncClient, app: App) -> None:
    await app.ledgers.runtime.write(
        ledger.set_aside, channel="desk", external_id="1", sender="<sam>", body={}, reason="it is <broken>"
    )
    [kept] = await app.ledgers.runtime.read(ledger.list_set_aside)
    shown = (await client.get("/channels")).text
    assert "it is &lt;broken&gt;" in shown
    assert "&lt;sam&gt;" in shown
    assert (await client.post(f"/set-aside/{kept.id}/dismiss")).status_code == 303
    assert await app.ledgers.runtime.read(ledger.list_set_aside) == []
    for to in ("dismiss", "retry"):
        assert (await client.post(f"/set-aside/{kept.id}/{to}")).status_code == 404


async def test_what_failed_is_limited_to_days(client: httpx.AsyncClient, app: App) -> None:
    def fail(connection: apsw.Connection) -> None:
        ledger.set_aside(connection, channel="desk", external_id="1", sender="s", body={}, reason="not read")
        ledger.queue(connection, "desk", [("evt_1", "thr_1", False)], seq=1)
        ledger.record_failed(connection, "evt_1", "not sent", None)

    await app.ledgers.runtime.write(fail)
    for address, text in (("/channels", "not read"), ("/channels/desk", "not sent")):
        for days in ({}, {"when": "1"}):
            assert text in (await client.get(address, params=days)).text
        shown = (await client.get(address, params={"when": "custom", "until": "2020-01-01"})).text
        assert text not in shown
        assert "in this period" in shown


async def test_quiet_hours_and_answers_in_groups_are_set_and_reset(
    client: httpx.AsyncClient, app: App
) -> None:
    given = {"answer": "always", "quiet_hours": "22:00-07:00", "zone": "Europe/Berlin"}
    assert (await client.post("/channels/desk/settings", data=given)).status_code == 303
    state = await app.ledgers.runtime.read(ledger.state, name="desk")
    assert (state.answer, state.quiet_hours, state.zone) == ("always", "22:00-07:00", "Europe/Berlin")
    shown = (await client.get("/channels/desk")).text
    assert 'value="22:00-07:00"' in shown
    assert '<option value="always" selected>' in shown
    assert "quiet 22:00-07:00" in (await client.get("/channels")).text
    for wrong in ({"quiet_hours": "late"}, {"zone": "Mars"}, {"answer": "loudly"}):
        assert (await client.post("/channels/desk/settings", data={**given, **wrong})).status_code == 400
    assert (await client.post("/channels/desk/reset")).status_code == 303
    state = await app.ledgers.runtime.read(ledger.state, name="desk")
    assert (state.answer, state.quiet_hours, state.zone) == (None, None, None)
    assert (await client.get("/channels/other")).status_code == 404


async def test_people_are_let_in_changed_and_revoked(client: httpx.AsyncClient, app: App) -> None:
    def stranger(connection: apsw.Connection) -> tuple[str, str]:
        seen = Seen(channel="desk", identifier="<sam>", display_name="<Sam>", event_id=None)
        sender = senders.resolve(connection, seen=seen)
        return sender.entity_id, access.ask(connection, sender.contact_id)[0]

    entity_id, code = await app.ledgers.identity.write(stranger)
    shown = (await client.get("/people")).text
    assert "&lt;Sam&gt;" in shown
    assert code in shown
    assert "1 asking" in (await client.get("/channels")).text
    granted = {
        "memory": "own",
        "tools": "web_fetch, send_file",
        "directories": "~/notes:rw",
        "network": "yes",
    }
    assert (await client.post(f"/people/codes/{code}/approve", data=granted)).status_code == 303
    found = await app.ledgers.identity.read(access.find_grant, entity_id=entity_id)
    assert found == Granted(tools=("web_fetch", "send_file"), directories=("~/notes:rw",), network=True)
    assert (await client.post(f"/people/codes/{code}/approve", data=granted)).status_code == 404
    assert (await client.post(f"/people/{entity_id}/grant", data={"memory": "none"})).status_code == 303
    found = await app.ledgers.identity.read(access.find_grant, entity_id=entity_id)
    assert found == Granted(memory="none")
    assert (await client.post(f"/people/{entity_id}/grant", data={"memory": "every"})).status_code == 400
    assert (await client.post(f"/people/{entity_id}/explode")).status_code == 400
    assert (await client.post(f"/people/{entity_id}/revoke")).status_code == 303
    assert await app.ledgers.identity.read(access.find_grant, entity_id=entity_id) is None
    for to in ("grant", "revoke"):
        assert (await client.post(f"/people/{entity_id}/{to}", data={})).status_code == 404
    assert (await client.post("/people/codes/NOTHING/refuse")).status_code == 404
