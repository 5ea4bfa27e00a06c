"""Whatever Slack, Telegram or Discord hands over: it is a message, nothing, or set aside with the reason."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from discord_server import DIRECT as DISCORD_DIRECT
from discord_server import TOKEN as DISCORD_TOKEN
from discord_server import DiscordServer
from nexus.channels import slack
from nexus.channels.adapter import Message, MessageError
from nexus.channels.discord import Discord
from nexus.channels.telegram import Telegram
from nexus.testing.adapter import RecordingInbox, running, until
from telegram_server import TOKEN, TelegramServer


class _Inbox(RecordingInbox):
    """Sets aside what is no message, as a home does."""

    async def receive(self, message: Message) -> None:
        try:
            await super().receive(message)
        except MessageError as error:
            self.put_aside.append(str(error))


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=3,
)
_FILES = st.lists(
    st.fixed_dictionaries({}, optional={"name": _JSON, "mimetype": _JSON, "size": _JSON}) | _JSON, max_size=2
)
_SLACK = st.fixed_dictionaries(
    {},
    optional={
        "subtype": st.sampled_from(["file_share", "message_changed", "channel_join"]) | _JSON,
        "ts": st.just("1700000000.000100") | _JSON,
        "thread_ts": st.just("1700000000.000100") | _JSON,
        "channel": st.sampled_from(["D1", "C1"]) | _JSON,
        "channel_type": st.sampled_from(["im", "channel"]) | _JSON,
        "user": st.just("U1") | _JSON,
        "bot_id": _JSON,
        "parent_user_id": _JSON,
        "text": st.text(alphabet="<>@#!|&;ltgmpU0BOT \ud800", max_size=30) | _JSON,
        "files": _FILES | _JSON,
    },
)
_ME = slack.Bot(user_id="U0BOT", bot_id="B0", name="nexus")


@example({"channel": "D1", "channel_type": [], "ts": "1700000000.000100", "user": "U1", "text": "x"})
@given(_SLACK)
def test_any_event_of_slack_is_read_or_refused(event: dict[str, Any]) -> None:
    assert isinstance(slack.is_said(event, _ME), bool)
    assert isinstance(slack.is_own_join(event, _ME), bool)
    with suppress(MessageError):
        files = list(slack.read_files(event))
        assert all(isinstance(each, dict) for each in files)
        found = slack.parse_message(event, _ME, (), name=None, title=None)
        assert found is None or isinstance(found, Message)
        if found is not None and event.get("channel_type") not in ("im", None):
            assert found.is_group, "what isn't known to be private is not private"


_TELEGRAM = st.fixed_dictionaries(
    {},
    optional={
        "message_id": st.just(5) | _JSON,
        "from": st.fixed_dictionaries({}, optional={"id": st.just(7) | _JSON, "is_bot": _JSON}) | _JSON,
        "chat": st.fixed_dictionaries(
            {}, optional={"id": st.just(7) | _JSON, "type": st.just("private") | _JSON, "title": _JSON}
        )
        | _JSON,
        "text": st.text(max_size=10) | _JSON,
        "photo": st.lists(_JSON, max_size=2) | _JSON,
        "document": st.fixed_dictionaries({}, optional={"file_size": _JSON, "file_name": _JSON}) | _JSON,
        "reply_to_message": st.fixed_dictionaries({}, optional={"from": _JSON}) | _JSON,
        "is_topic_message": _JSON,
    },
)


@pytest.fixture(scope="module")
def telegram() -> Iterator[TelegramServer]:
    made = TelegramServer()
    yield made
    made.close()


@given(update=_TELEGRAM | _JSON)
@settings(max_examples=60, deadline=None)
def test_any_update_of_telegram_is_read_or_set_aside_and_the_next_one_comes(
    telegram: TelegramServer, update: Any
) -> None:
    async def run() -> None:
        inbox = _Inbox()
        async with running(Telegram(token=TOKEN, url=telegram.url, poll_s=1), inbox):
            telegram.add_update({"message": update})
            telegram.write("the next one")
            await until(lambda: "the next one" in inbox.texts())

    asyncio.run(run())


_DISCORD = st.fixed_dictionaries(
    {},
    optional={
        "author": st.fixed_dictionaries({}, optional={"id": _JSON, "username": _JSON}) | _JSON,
        "content": _JSON,
        "attachments": st.lists(st.fixed_dictionaries({}, optional={"url": _JSON}) | _JSON, max_size=2)
        | _JSON,
        "mentions": st.lists(_JSON, max_size=2) | _JSON,
        "type": _JSON,
        "timestamp": _JSON,
    },
)


@given(change=_DISCORD)
@settings(max_examples=25, deadline=None)
def test_no_message_of_discord_keeps_the_bot_from_reading_what_comes_later(change: dict[str, Any]) -> None:
    server = DiscordServer()

    async def run() -> None:
        inbox = _Inbox()

        def bot() -> Discord:
            return Discord(token=DISCORD_TOKEN, url=server.url, settle_s=0.01)

        async with running(bot(), inbox):
            await asyncio.to_thread(server.write, "first")
            await until(lambda: "first" in inbox.texts())
        await asyncio.to_thread(server.write, "odd", quietly=True)
        server.said[DISCORD_DIRECT][-1] |= change
        async with running(bot(), inbox):
            await asyncio.to_thread(server.write, "the next one")
            await until(lambda: "the next one" in inbox.texts())

    try:
        asyncio.run(run())
    finally:
        server.close()
