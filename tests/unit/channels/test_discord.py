"""A Discord bot, against a server that speaks the documented gateway and REST API."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from attached_files import png
from discord_server import BOT, DIRECT, GROUP, HANA, TOKEN, DiscordServer
from nexus.channels.adapter import Delivery, DeliveryError, File, Message
from nexus.channels.discord import Discord
from nexus.testing.adapter import AdapterContract, RecordingInbox, running, until


@pytest.fixture
def server() -> Iterator[DiscordServer]:
    made = DiscordServer()
    yield made
    made.close()


_ME = {"id": BOT, "username": "nexus", "discriminator": "0", "avatar": None}


def _discord(server: DiscordServer, token: str = TOKEN, settle_s: float = 0.05) -> Discord:
    return Discord(token=token, url=server.url, settle_s=settle_s)


async def test_a_direct_message_is_handed_over_and_the_bot_types(server: DiscordServer) -> None:
    inbox, bot = RecordingInbox(HANA), _discord(server)
    async with running(bot, inbox):
        id_ = await asyncio.to_thread(server.write, f"Hello <@{BOT}>", mentions=[_ME])
        await until(lambda: inbox.noted == 1)
        for ended in (False, True):
            await bot.show_work(DIRECT, inbox.messages[0].id, ended=ended)
    assert inbox.messages[0] == Message(
        id=f"{DIRECT}/{id_}", thread=DIRECT, sender=HANA, sender_name="Hana Ito", text="Hello @nexus"
    )
    assert server.typing == [DIRECT]


async def test_an_edited_message_names_the_one_that_it_was(server: DiscordServer) -> None:
    inbox, bot = RecordingInbox(), _discord(server)
    async with running(bot, inbox):
        id_ = await asyncio.to_thread(server.write, "Meet at 5")
        await until(lambda: inbox.noted == 1)
        await asyncio.to_thread(partial(server.edit, id_, "Meet at 5", edited_timestamp=None))
        await asyncio.to_thread(server.edit, id_, "Meet at 6")
        await until(lambda: inbox.noted == 2)
        first, edited = inbox.messages
        assert (edited.text, edited.edits, edited.thread) == ("Meet at 6", first.id, DIRECT)
        assert edited.id.startswith(f"{first.id}/")
        answer = Delivery(key="evt_1", thread=DIRECT, text="At 6", reply_to=edited.edits)
        sent = await bot.deliver(answer)
        assert server.sent[0]["message_reference"]["message_id"] == int(id_)
        assert await bot.deliver(replace(answer, key="evt_2", text="At 7", edits=sent)) == sent
        assert server.texts() == ["At 7"]
        await bot.deliver(replace(answer, key="evt_3", text="At 8", edits=f"{DIRECT}/1"))
        assert server.texts() == ["At 7", "At 8"]


async def test_what_was_said_while_nobody_listened_is_fetched(server: DiscordServer) -> None:
    server.write("long ago", quietly=True)
    server.write("long ago", channel=GROUP, quietly=True)
    inbox = RecordingInbox()
    async with running(_discord(server, settle_s=1), inbox):
        await asyncio.to_thread(server.write, "one")
        await until(lambda: inbox.noted == 1)
    for number in range(3):
        server.write(f"missed {number}", quietly=True)
    server.write("in the group", channel=GROUP, quietly=True)
    async with running(_discord(server, settle_s=1), inbox):
        await asyncio.to_thread(server.write, "last")
        await until(lambda: inbox.noted == 6)
    assert sorted(inbox.texts()) == ["in the group", "last", "missed 0", "missed 1", "missed 2", "one"]
    direct = [each.text for each in inbox.messages if each.thread == DIRECT]
    assert direct == ["one", "missed 0", "missed 1", "missed 2", "last"]
    assert all(each.is_group == (each.thread == GROUP) for each in inbox.messages)


async def test_a_lost_connection_is_resumed_where_it_was_lost(server: DiscordServer) -> None:
    inbox = RecordingInbox()
    async with running(_discord(server), inbox):
        await asyncio.to_thread(server.write, "one")
        await until(lambda: inbox.noted == 1)
        await asyncio.to_thread(server.drop)
        await asyncio.to_thread(server.write, "two")
        await until(lambda: inbox.noted == 2)
    assert inbox.texts() == ["one", "two"]
    assert (server.identified, server.resumed) == (1, 1)


async def test_in_a_group_a_mention_the_bots_role_or_a_reply_addresses_it(
    server: DiscordServer,
) -> None:
    inbox = RecordingInbox()
    bot = _ME
    answered = server.write("I said", channel="77", quietly=True)
    own = {**server.said["77"][0], "author": bot, "id": answered, "channel_id": GROUP}
    reference = {"message_id": answered, "channel_id": GROUP, "guild_id": "900", "type": 0}
    async with running(_discord(server), inbox):
        said: list[tuple[str, dict[str, Any]]] = [
            ("Nobody asked", {}),
            (f"<@{BOT}> when?", {"mentions": [bot]}),
            ("<@&902> when?", {"mention_roles": ["902"]}),
            ("And now?", {"type": 19, "message_reference": reference, "referenced_message": own}),
            ("<@8> when?", {"mentions": [{**bot, "id": "8"}]}),
        ]
        for text, more in said:
            await asyncio.to_thread(server.write, text, channel=GROUP, **more)
        await until(lambda: inbox.noted == 5)
    assert [each.is_addressed for each in inbox.messages] == [False, True, True, True, False]
    assert all(each.is_group and each.title == "#trip (Friends)" for each in inbox.messages)


async def test_bots_webhooks_and_notices_get_no_answer(server: DiscordServer) -> None:
    inbox = RecordingInbox()
    other = {"id": "9", "username": "other", "discriminator": "0", "avatar": None, "bot": True}
    async with running(_discord(server), inbox):
        await asyncio.to_thread(server.write, "my own", user=BOT)
        await asyncio.to_thread(server.write, "joined", type=7)
        await asyncio.to_thread(server.write, "")
        await asyncio.to_thread(server.write, "I am a bot", author=other)
        await asyncio.to_thread(server.write, "From a webhook", webhook_id="44", channel=GROUP)
        await asyncio.to_thread(server.write, "Hello")
        await until(lambda: len(inbox.messages) == 3)
    said = [(each.text, each.is_automatic) for each in inbox.messages]
    assert said == [("I am a bot", True), ("From a webhook", True), ("Hello", False)]


async def test_files_come_along_only_from_discord(server: DiscordServer) -> None:
    inbox = RecordingInbox()
    server.files |= {"map.png": png(), "bomb": b"x" * 26_000_000}
    elsewhere = DiscordServer()
    elsewhere.files["map.png"] = png()
    attached = [
        ("map.png", 70, f"{server.url}/files/map.png"),
        ("film.mp4", 50_000_000, f"{server.url}/files/film"),
        ("lie.bin", 10, f"{server.url}/files/bomb"),
        ("gone.txt", 10, f"{server.url}/files/gone"),
        ("other.png", 70, f"{elsewhere.url}/files/map.png"),
    ]
    files = [
        {"id": str(number), "filename": name, "size": size, "url": url, "proxy_url": url}
        for number, (name, size, url) in enumerate(attached)
    ]
    files[0]["content_type"] = "image/png"
    try:
        async with running(_discord(server), inbox):
            await asyncio.to_thread(server.write, "See", attachments=files)
            await until(lambda: inbox.noted == 1)
    finally:
        elsewhere.close()
    [message] = inbox.messages
    assert message.files[0] == File(name="map.png", media_type="image/png", data=png())
    assert [(each.data, each.problem) for each in message.files[1:]] == [
        (b"", "larger than 25 MB"),
        (b"", "larger than 25 MB"),
        (b"", "the server answered 404"),
        (b"", "it isn't kept at Discord"),
    ]
    assert elsewhere.asked == []


async def test_a_long_answer_leaves_in_pieces_that_a_retry_does_not_repeat(server: DiscordServer) -> None:
    text = "\n\n".join(f"Paragraph {number} " + "word " * 200 for number in range(6))
    files = (File(name="map.png", media_type="image/png", data=png()),)
    delivery = Delivery(key="evt_1", thread=GROUP, text=text, reply_to=f"{GROUP}/3", files=files)
    discord = _discord(server)
    async with running(discord, RecordingInbox()):
        first = await discord.deliver(delivery)
        assert await discord.deliver(delivery) == first, "the nonce makes it the same message"
    again = _discord(server)
    async with running(again, RecordingInbox()):
        assert await again.deliver(delivery) == first, "also after the program was started again"
    assert all(part.startswith("Paragraph") for part in server.texts())
    assert "\n\n".join(server.texts()).split() == text.split()
    assert server.sent[0]["message_reference"]["message_id"] == 3
    assert all("message_reference" not in each for each in server.sent[1:])
    assert all(each["allowed_mentions"]["parse"] == [] for each in server.sent)
    assert server.uploaded == [("map.png", png())]


async def test_refusals_are_told(server: DiscordServer) -> None:
    discord = _discord(server)
    delivery = Delivery(key="evt_1", thread=GROUP, text="Hello")
    with pytest.raises(DeliveryError, match="not connected"):
        await discord.deliver(delivery)
    async with running(discord, RecordingInbox()):
        for status, final in ((403, True), (404, True), (413, True), (418, False)):
            server.refusals = [("post", status, {"message": "Missing Access", "code": 50001})]
            with pytest.raises(DeliveryError, match="Missing Access") as caught:
                await discord.deliver(delivery)
            assert caught.value.final is final
        await discord.deliver(delivery)
    assert server.texts() == ["Hello"]
    with pytest.raises(ConnectionError, match="token is wrong"):
        await _discord(server, "wrong").run(RecordingInbox())
    server.close_with = 4014
    with pytest.raises(ConnectionError, match="Message Content Intent"):
        await _discord(server).run(RecordingInbox())


async def test_whose_bot_it_is_is_known_for_the_setup(server: DiscordServer) -> None:
    assert await _discord(server).check() == ("nexus", HANA, "hana")


class TestContract(AdapterContract):
    """The published checks."""

    repeats_deliveries = False

    @pytest.fixture(autouse=True)
    def service(self, server: DiscordServer) -> None:
        self._server = server

    def adapter(self) -> Discord:
        return _discord(self._server)

    async def write(self, text: str) -> None:
        await asyncio.to_thread(self._server.write, text)

    async def sent(self) -> list[str]:
        return self._server.texts()

    async def sent_files(self) -> list[bytes]:
        return [data for _, data in self._server.uploaded]
