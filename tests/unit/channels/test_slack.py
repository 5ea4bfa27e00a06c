"""A Slack app in socket mode, against a server that speaks the documented Web API and envelopes."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from attached_files import png
from nexus.channels.adapter import Delivery, DeliveryError, File, Message
from nexus.channels.slack import Slack
from nexus.testing.adapter import AdapterContract, RecordingInbox, running, until
from slack_server import APP_TOKEN, BOT, DIRECT, GROUP, HANA, TOKEN, SlackServer


@pytest.fixture
def server() -> Iterator[SlackServer]:
    made = SlackServer()
    yield made
    made.close()


def _slack(server: SlackServer, token: str = TOKEN, app_token: str = APP_TOKEN) -> Slack:
    return Slack(token=token, app_token=app_token, url=server.url)


async def test_a_message_is_acknowledged_once_it_is_on_record(server: SlackServer) -> None:
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        ts = await asyncio.to_thread(server.write, "Is 1 &lt; 2 &amp; <https://example.org|this> true?")
        await until(lambda: len(server.acknowledged) == 1)
    assert inbox.messages == [
        Message(
            id=f"{DIRECT}/{ts}",
            thread=DIRECT,
            sender=HANA,
            sender_name="Hana Ito",
            text="Is 1 < 2 & this (https://example.org) true?",
        )
    ]


async def test_what_cannot_be_kept_is_not_acknowledged(server: SlackServer) -> None:
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        pass
    task = asyncio.create_task(_slack(server).run(inbox))
    inbox.loses_cursor = True
    await asyncio.to_thread(server.write, "Hello")
    with pytest.raises(ConnectionError, match="before it was kept"):
        await asyncio.wait_for(task, 60)
    assert server.acknowledged == set()


async def test_what_was_said_while_no_socket_was_open_is_fetched_in_order(server: SlackServer) -> None:
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        root = await asyncio.to_thread(server.write, "one", channel=GROUP)
        await asyncio.to_thread(server.write, "two", channel=GROUP, thread_ts=root)
        await until(lambda: inbox.noted == 2)
        for number in range(5):
            await asyncio.to_thread(server.write, f"missed {number}", quietly=True)
        await asyncio.to_thread(server.write, "in the thread", channel=GROUP, thread_ts=root, quietly=True)
        await asyncio.to_thread(server.disconnect)
        await until(lambda: inbox.noted == 8)
        assert server.connections == 2
        await asyncio.to_thread(server.write, "last")
        await until(lambda: inbox.noted == 9)
    expected = ["one", "two", *(f"missed {number}" for number in range(5)), "in the thread", "last"]
    assert inbox.texts() == expected
    assert inbox.messages[7].thread == f"{GROUP} {root}"


async def test_an_edited_message_names_the_one_that_it_was(server: SlackServer) -> None:
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        root = await asyncio.to_thread(server.write, "Trip", channel=GROUP)
        ts = await asyncio.to_thread(server.write, "Meet at 5", channel=GROUP, thread_ts=root)
        await asyncio.to_thread(partial(server.edit, ts, "Meet at 5", channel=GROUP, edited=None))
        await asyncio.to_thread(partial(server.edit, ts, "Meet at 6", channel=GROUP))
        await until(lambda: len(server.acknowledged) == 4)
    assert inbox.texts() == ["Trip", "Meet at 5", "Meet at 6"], "a preview that Slack adds is no edit"
    _, first, edited = inbox.messages
    assert (edited.edits, edited.thread, edited.sender) == (first.id, first.thread, HANA)
    assert edited.id.startswith(f"{first.id}/")


async def test_an_answer_is_changed_or_sent_anew_and_work_is_shown(server: SlackServer) -> None:
    slack = _slack(server)
    first = await slack.deliver(Delivery(key="evt_1", thread=DIRECT, text="At 5"))
    assert await slack.deliver(Delivery(key="evt_2", thread=DIRECT, text="At 6", edits=first)) == first
    assert server.texts() == ["At 6"]
    await slack.deliver(Delivery(key="evt_3", thread=DIRECT, text="At 7", edits=f"{DIRECT}/1.000001"))
    assert server.texts() == ["At 6", "At 7"]
    await slack.show_work(DIRECT, f"{DIRECT}/12.000001", ended=False)
    assert server.reactions == [(DIRECT, "12.000001", "eyes")]
    await slack.show_work(DIRECT, f"{DIRECT}/12.000001", ended=True)
    assert server.reactions == []


async def test_what_was_said_before_the_agent_came_is_not_answered(server: SlackServer) -> None:
    server.write("long ago", quietly=True)
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        await asyncio.to_thread(server.write, "Hello")
        await until(lambda: inbox.noted == 1)
    server.write("among us", channel="C0NEW", quietly=True)
    server.write("<@U0BOT> has joined", channel="C0NEW", user=BOT, quietly=True, subtype="channel_join")
    server.write("welcome", channel="C0NEW", quietly=True)
    async with running(_slack(server), inbox):
        await until(lambda: inbox.noted == 2)
    assert inbox.texts() == ["Hello", "welcome"]


async def test_in_a_group_the_agent_is_addressed_by_a_mention_or_in_its_thread(server: SlackServer) -> None:
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        said: list[tuple[str, dict[str, Any]]] = [
            ("Nobody asked", {}),
            (f"<@{BOT}> when?", {}),
            ("<@U0BOTTOM> when?", {}),
            ("And now?", {"thread_ts": "1700000000.000100", "parent_user_id": BOT}),
        ]
        for text, more in said:
            await asyncio.to_thread(server.write, text, channel=GROUP, **more)
        await until(lambda: inbox.noted == 4)
    assert [each.is_addressed for each in inbox.messages] == [False, True, False, True]
    assert all(each.is_group and each.title == "trip" for each in inbox.messages)
    assert inbox.messages[1].text == "@nexus when?"
    assert [each.thread for each in inbox.messages] == [*[GROUP] * 3, f"{GROUP} 1700000000.000100"]


async def test_bots_edits_notices_and_its_own_words_get_no_answer(server: SlackServer) -> None:
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        event = {"type": "message", "channel": DIRECT, "channel_type": "im"}
        for more in (
            {"user": BOT, "text": "my own", "ts": "1.000001"},
            {"bot_id": "B0BOT", "text": "my own", "ts": "1.000002", "subtype": "bot_message"},
            {"subtype": "message_changed", "message": {"text": "edited"}, "ts": "1.000003"},
            {"subtype": "channel_topic", "user": HANA, "text": "set the topic", "ts": "1.000004"},
            {"user": HANA, "text": "no ts"},
            {"user": HANA, "text": ["no", "text"], "ts": "1.000005"},
        ):
            await asyncio.to_thread(server.send_event, event | more)
        await asyncio.to_thread(server.send_event, {"type": "reaction_added", "user": HANA})
        await asyncio.to_thread(server.write, "I am a bot", user="U0OTHER", bot_id="B0OTHER")
        await asyncio.to_thread(server.write, "Hello")
        await until(lambda: len(server.acknowledged) == 9)
    said = [(each.text, each.is_automatic) for each in inbox.messages]
    assert said == [("I am a bot", True), ("Hello", False)]
    assert len(inbox.put_aside) == 2


async def test_files_come_along_and_the_token_goes_only_to_slack(server: SlackServer) -> None:
    inbox = RecordingInbox()
    server.files |= {"map.png": png(), "bomb": b"x" * 26_000_000}
    elsewhere = SlackServer()
    elsewhere.files["map.png"] = png()
    files = [
        {"name": "map.png", "mimetype": "image/png", "url_private": f"{server.origin}/files/map.png"},
        {"name": "film.mp4", "size": 50_000_000, "url_private": f"{server.origin}/files/film"},
        {"name": "lie.bin", "size": 10, "url_private": f"{server.origin}/files/bomb"},
        {"name": "gone.txt", "url_private": f"{server.origin}/files/gone"},
        {"name": "drive", "is_external": True, "url_private": f"{elsewhere.origin}/files/map.png"},
    ]
    try:
        async with running(_slack(server), inbox):
            await asyncio.to_thread(server.write, "See", subtype="file_share", files=files)
            await until(lambda: inbox.noted == 1)
    finally:
        elsewhere.close()
    [message] = inbox.messages
    assert message.files[0] == File(name="map.png", media_type="image/png", data=png())
    assert [(each.data, each.problem) for each in message.files[1:]] == [
        (b"", "larger than 25 MB"),
        (b"", "larger than 25 MB"),
        (b"", "the server answered 404"),
        (b"", "it isn't kept at Slack"),
    ]
    assert elsewhere.asked == []
    assert {token for _, token in server.asked} == {f"Bearer {TOKEN}"}


async def test_a_long_answer_leaves_in_pieces_that_a_retry_does_not_repeat(server: SlackServer) -> None:
    text = "\n\n".join(f"Paragraph {number} " + "word " * 1_000 for number in range(6))
    files = (File(name="map.png", media_type="image/png", data=png()),)
    delivery = Delivery(key="evt_1", thread=f"{GROUP} 1700000000.000100", text=text, files=files)
    slack = _slack(server)
    server.refusals = [("files.getUploadURLExternal", {"error": "internal_error"})]
    with pytest.raises(DeliveryError) as caught:
        await slack.deliver(delivery)
    assert not caught.value.final
    first = await slack.deliver(delivery)
    assert first is not None
    assert first.startswith(f"{GROUP}/")
    assert all(part.startswith("Paragraph") for part in server.texts())
    assert "\n\n".join(server.texts()).split() == text.split()
    assert {each["thread_ts"] for each in server.sent} == {"1700000000.000100"}
    assert server.uploaded == [("map.png", png())]


async def test_an_answer_calls_nobody(server: SlackServer) -> None:
    await _slack(server).deliver(
        Delivery(key="evt_1", thread=GROUP, text="Tell <!channel> and <@U0HANA>: 1 < 2")
    )
    [text] = server.texts()
    assert "<!" not in text
    assert "<@" not in text
    assert "1 < 2" in text


async def test_refusals_are_told_and_rate_limits_waited_out(server: SlackServer) -> None:
    server.refusals = [
        ("chat.postMessage", {"error": "ratelimited"}),
        ("chat.postMessage", {"error": "is_archived"}),
    ]
    with pytest.raises(DeliveryError, match="is_archived") as caught:
        await _slack(server).deliver(Delivery(key="evt_1", thread=GROUP, text="Hello"))
    assert caught.value.final
    server.refusals = [("chat.postMessage", {"error": "ratelimited"})]
    await _slack(server).deliver(Delivery(key="evt_2", thread=GROUP, text="Hello"))
    assert server.texts() == ["Hello"]
    for wrong in (_slack(server, token="xoxb-wrong"), _slack(server, app_token="xapp-wrong")):
        with pytest.raises(ConnectionError, match="invalid_auth") as told:
            await wrong.run(RecordingInbox())
        assert "wrong" not in str(told.value)
    inbox = RecordingInbox()
    async with running(_slack(server), inbox):
        pass
    server.refusals = [("users.conversations", {"error": "missing_scope", "needed": "im:read"})]
    with pytest.raises(ConnectionError, match="needs the scope im:read"):
        await _slack(server).run(inbox)


class TestContract(AdapterContract):
    """The published checks."""

    @pytest.fixture(autouse=True)
    def service(self, server: SlackServer) -> None:
        self._server = server

    def adapter(self) -> Slack:
        return _slack(self._server)

    async def write(self, text: str) -> None:
        await asyncio.to_thread(self._server.write, text)

    async def sent(self) -> list[str]:
        return self._server.texts()

    async def sent_files(self) -> list[bytes]:
        return [data for _, data in self._server.uploaded]
