"""A Telegram bot, over HTTP to a server that speaks the documented Bot API."""

import asyncio
from collections.abc import Iterator

import pytest

from attached_files import png
from nexus.channels.adapter import Delivery, DeliveryError, File, Message
from nexus.channels.telegram import Telegram
from nexus.testing.adapter import AdapterContract, RecordingInbox, running, until
from telegram_server import BOT, TOKEN, TelegramServer


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    made = TelegramServer()
    yield made
    made.close()


def _bot(server: TelegramServer, token: str = TOKEN) -> Telegram:
    return Telegram(token=token, url=server.url, poll_s=1)


async def test_a_message_is_handed_over_once_and_again_if_it_was_not_kept(server: TelegramServer) -> None:
    inbox = RecordingInbox()
    id_ = server.write("Hello")
    inbox.loses_cursor = True
    with pytest.raises(ConnectionError, match="before it was kept"):
        await asyncio.wait_for(_bot(server).run(inbox), 60)
    inbox.loses_cursor = False
    async with running(_bot(server), inbox):
        server.write("more")
        await until(lambda: len(inbox.messages) == 3)
    first, again, more = inbox.messages
    assert first == Message(id=f"7/{id_}", thread="7", sender="7", sender_name="Hana Ito", text="Hello")
    assert first == again
    assert more.text == "more"


async def test_in_a_group_the_bot_is_addressed_by_its_name_or_a_reply(server: TelegramServer) -> None:
    inbox = RecordingInbox()
    server.write("Nobody asked", chat=-5)
    server.write("@Nexus_Agent_Bot, when?", chat=-5)
    server.write("@nexus_agent_bottom, when?", chat=-5)
    server.write("And now?", chat=-5, reply_to_message={"message_id": 1, "from": BOT})
    server.write("In a topic", chat=-5, message_thread_id=9, is_topic_message=True)
    async with running(_bot(server), inbox):
        await until(lambda: len(inbox.messages) == 5)
    assert [each.is_addressed for each in inbox.messages] == [False, True, False, True, False]
    assert all(each.is_group and each.title == "Trip" for each in inbox.messages)
    assert [each.thread for each in inbox.messages] == ["-5", "-5", "-5", "-5", "-5/9"]


async def test_its_own_name_is_removed_from_commands(server: TelegramServer) -> None:
    inbox = RecordingInbox()
    server.write("/new@Nexus_Agent_Bot", chat=-5)
    server.write("/new@other_bot", chat=-5)
    async with running(_bot(server), inbox):
        await until(lambda: len(inbox.messages) == 2)
    assert [(each.text, each.is_addressed) for each in inbox.messages] == [
        *(("/new", True), ("/new@other_bot", False))
    ]


async def test_bots_channels_and_notices_get_no_answer(server: TelegramServer) -> None:
    inbox = RecordingInbox()
    server.write("I am a bot", sender=8, is_bot=True)
    server.write("From a channel", chat=-5, sender_chat={"id": -5, "type": "channel"})
    server.write(new_chat_title="Other", chat=-5)
    server.add_update({"poll": {"id": "1"}})
    server.add_update({"message": {"message_id": 1, "from": {"id": 7}, "text": "no chat"}})
    server.write("Hello")
    async with running(_bot(server), inbox):
        await until(lambda: len(inbox.messages) == 2)
    assert [(each.text, each.is_automatic) for each in inbox.messages] == [
        ("I am a bot", True),
        ("Hello", False),
    ]
    assert len(inbox.put_aside) == 1


async def test_files_come_along(server: TelegramServer) -> None:
    inbox = RecordingInbox()
    server.files |= {"big": png(), "doc": b"Zebra"}
    sizes = [{"file_id": "small", "file_size": 1}, {"file_id": "big", "file_size": 70}]
    server.write(caption="See", photo=sizes)
    server.write(document={"file_id": "doc", "file_name": "a.txt", "mime_type": "text/plain"})
    server.write(document={"file_id": "huge", "file_name": "film.mp4", "file_size": 50_000_000})
    async with running(_bot(server), inbox):
        await until(lambda: len(inbox.messages) == 3)
    assert [each.text for each in inbox.messages] == ["See", "", ""]
    [[photo], [document], [film]] = [each.files for each in inbox.messages]
    assert photo == File(name="photo.jpg", media_type="image/jpeg", data=png())
    assert document == File(name="a.txt", media_type="text/plain", data=b"Zebra")
    assert (film.name, film.data) == ("film.mp4", b"")
    assert film.problem == "larger than 20 MB", "the Bot API doesn't hand it over"


async def test_a_long_answer_leaves_in_pieces_that_a_retry_does_not_repeat(server: TelegramServer) -> None:
    text = "\n\n".join(f"Paragraph {number} " + "word " * 300 for number in range(6))
    delivery = Delivery(
        key="evt_1",
        thread="-5/9",
        text=text,
        reply_to="-5/3",
        files=(File(name="map.png", media_type="image/png", data=png()),),
    )
    bot = _bot(server)
    server.refusals = [("sendDocument", {"error_code": 500, "description": "Internal"})]
    with pytest.raises(DeliveryError) as caught:
        await bot.deliver(delivery)
    assert not caught.value.final
    first = await bot.deliver(delivery)
    assert first is not None
    assert first.startswith("-5/")
    assert all(part.startswith("Paragraph") for part in server.texts())
    assert "\n\n".join(server.texts()).split() == text.split()
    assert server.sent[0]["reply_parameters"]["message_id"] == 3
    assert all("reply_parameters" not in each for each in server.sent[1:])
    assert {str(each["message_thread_id"]) for each in server.sent} == {"9"}
    assert server.sent[-1]["document"] == ("map.png", png())


async def test_an_edited_message_names_the_one_that_it_was(server: TelegramServer) -> None:
    inbox = RecordingInbox()
    id_ = server.write("Meet at 5")
    server.edit(id_, "Meet at 6", at=1_800_000_000)
    async with running(_bot(server), inbox):
        await until(lambda: len(inbox.messages) == 2)
    first, edited = inbox.messages
    assert first.edits is None
    assert (edited.text, edited.edits) == ("Meet at 6", first.id)
    assert edited.id == f"7/{id_}/1800000000"
    await _bot(server).deliver(Delivery(key="evt_1", thread="7", text="At 6", reply_to=edited.edits))
    assert server.sent[0]["reply_parameters"]["message_id"] == id_


async def test_an_answer_is_changed_or_sent_anew(server: TelegramServer) -> None:
    bot, delivery = _bot(server), Delivery(key="evt_1", thread="7", text="At 5")
    first = await bot.deliver(delivery)
    assert await bot.deliver(Delivery(key="evt_2", thread="7", text="At 6", edits=first)) == first
    assert server.texts() == ["At 6"]
    same = {"error_code": 400, "description": "Bad Request: message is not modified: …"}
    server.refusals = [("editMessageText", same)]
    await bot.deliver(Delivery(key="evt_2", thread="7", text="At 6", edits=first))
    assert server.texts() == ["At 6"]
    gone = await bot.deliver(Delivery(key="evt_3", thread="7", text="At 7", edits="7/999"))
    assert gone not in {first, "7/999"}
    assert server.texts() == ["At 6", "At 7"]
    server.refusals = [("editMessageText", {"error_code": 500, "description": "Internal"})]
    with pytest.raises(DeliveryError) as caught:
        await bot.deliver(Delivery(key="evt_4", thread="7", text="At 8", edits=first))
    assert not caught.value.final


async def test_a_message_is_taken_back(server: TelegramServer) -> None:
    sent = await _bot(server).deliver(Delivery(key="progress:1", thread="7", text="Reading 1,100 tokens…"))
    assert sent is not None
    await _bot(server).remove("7", sent)
    assert server.texts() == []


async def test_typing_is_shown_in_the_topic(server: TelegramServer) -> None:
    for ended in (False, True):
        await _bot(server).show_work("-5/9", "-5/3", ended=ended)
    assert server.shown == [{"chat_id": "-5", "message_thread_id": 9, "action": "typing"}]


async def test_too_many_requests_are_waited_out(server: TelegramServer) -> None:
    busy = {
        "error_code": 429,
        "description": "Too Many Requests: retry after 0",
        "parameters": {"retry_after": 0.01},
    }
    server.refusals = [("sendMessage", busy), ("sendMessage", busy), ("getUpdates", busy)]
    await _bot(server).deliver(Delivery(key="evt_1", thread="7", text="Hello"))
    assert server.texts() == ["Hello"]
    long = {**busy, "parameters": {"retry_after": 3_600}}
    server.refusals = [("sendMessage", long)]
    with pytest.raises(DeliveryError, match="Too Many") as caught:
        await _bot(server).deliver(Delivery(key="evt_2", thread="7", text="Hello"))
    assert not caught.value.final
    inbox = RecordingInbox()
    server.refusals = [("getUpdates", busy)]
    server.write("Hello")
    async with running(_bot(server), inbox):
        await until(lambda: inbox.messages)


async def test_errors_never_tell_the_token(server: TelegramServer) -> None:
    blocked = {"error_code": 403, "description": "Forbidden: bot was blocked by the user"}
    server.refusals = [("sendMessage", blocked)]
    delivery = Delivery(key="evt_1", thread="7", text="Hello")
    with pytest.raises(DeliveryError, match="blocked") as caught:
        await _bot(server).deliver(delivery)
    assert caught.value.final
    with pytest.raises(DeliveryError, match="token is wrong"):
        await _bot(server, "1:wrong").run(RecordingInbox())
    server.close()
    with pytest.raises(DeliveryError) as caught:
        await _bot(server).deliver(delivery)
    assert TOKEN not in str(caught.value)
    assert not caught.value.final


async def test_who_wrote_last_is_known_for_the_setup(server: TelegramServer) -> None:
    assert await _bot(server).newest_sender() is None
    server.write("Hello")
    assert await _bot(server).newest_sender() == ("7", "Hana Ito")
    assert (await _bot(server).me())["username"] == "nexus_agent_bot"


class TestContract(AdapterContract):
    """The published checks."""

    @pytest.fixture(autouse=True)
    def service(self, server: TelegramServer) -> None:
        self._server = server

    def adapter(self) -> Telegram:
        return _bot(self._server)

    async def write(self, text: str) -> None:
        self._server.write(text)

    async def sent(self) -> list[str]:
        return self._server.texts()

    async def sent_files(self) -> list[bytes]:
        return [each["document"][1] for each in self._server.sent if "document" in each]
