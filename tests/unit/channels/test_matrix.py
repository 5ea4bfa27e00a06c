"""An account on a real homeserver: rooms are read once, and answers leave once."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from attached_files import png
from matrix_server import Person, Synapse, homeserver
from nexus.channels.adapter import Delivery, DeliveryError, File, Message
from nexus.channels.matrix import Matrix
from nexus.testing.adapter import AdapterContract, RecordingInbox, running, until

_numbers = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Synapse]:
    with homeserver() as made:
        yield made


@pytest.fixture
def agent(server: Synapse) -> Person:
    return server.register(f"agent{next(_numbers)}")


@pytest.fixture
def hana(server: Synapse) -> Person:
    return server.register(f"hana{next(_numbers)}")


@pytest.fixture
def sam(server: Synapse) -> Person:
    return server.register(f"sam{next(_numbers)}")


def _matrix(server: Synapse, agent: Person, **more: Any) -> Matrix:
    return Matrix(url=server.url, secret=agent.token, poll_ms=1_000, **more)


async def test_a_room_is_read_once_from_the_invitation_on(
    server: Synapse, agent: Person, hana: Person
) -> None:
    inbox = RecordingInbox(hana.id)
    room = await asyncio.to_thread(hana.open_room)
    await asyncio.to_thread(hana.say, room, "before anybody was invited")
    await asyncio.to_thread(hana.invite, room, agent.id)
    first = await asyncio.to_thread(hana.say, room, "one")
    async with running(_matrix(server, agent), inbox):
        await until(lambda: inbox.texts() == ["one"])
    for text in ("two", "three", "four"):
        await asyncio.to_thread(hana.say, room, text)
    async with running(_matrix(server, agent, timeline=1), inbox):
        await until(lambda: len(inbox.messages) == 4)
        await asyncio.to_thread(hana.say, room, "five")
        await until(lambda: len(inbox.messages) == 5)
    assert inbox.texts() == ["one", "two", "three", "four", "five"]
    assert inbox.messages[0] == Message(
        id=first, thread=room, sender=hana.id, sender_name=hana.id.split(":")[0][1:], text="one"
    )


async def test_what_was_not_kept_comes_again_with_the_same_id(
    server: Synapse, agent: Person, hana: Person
) -> None:
    """As after a kill between recording a message and remembering how far was read."""
    inbox = RecordingInbox(hana.id)
    room = await asyncio.to_thread(hana.open_room, agent.id)
    async with running(_matrix(server, agent), inbox):
        await until(lambda: inbox.kept)
        before = inbox.kept
        await asyncio.to_thread(hana.say, room, "one")
        await until(lambda: inbox.messages)
        await until(lambda: inbox.kept != before)
    inbox.kept = before
    async with running(_matrix(server, agent), inbox):
        await until(lambda: len(inbox.messages) == 2)
    assert inbox.messages[0] == inbox.messages[1]


async def test_a_strangers_private_room_is_joined_and_other_rooms_wait_until_they_are_let_in(
    server: Synapse, agent: Person, sam: Person
) -> None:
    inbox = RecordingInbox()
    async with running(_matrix(server, agent), inbox):
        private = await asyncio.to_thread(sam.open_room, agent.id)
        await until(lambda: inbox.messages)
        group = await asyncio.to_thread(partial(sam.open_room, agent.id, direct=False, name="Club"))
        await until(lambda: group in inbox.kept["invites"])
        await asyncio.to_thread(sam.say, group, "Anybody there?")
        assert [(each.thread, each.sender) for each in inbox.messages] == [(private, sam.id)]
        inbox.known.add(sam.id)
        await until(lambda: len(inbox.messages) == 2)
    assert inbox.texts()[1] == "Anybody there?"
    assert inbox.messages[1].title == "Club"
    assert inbox.kept["invites"] == {}


async def test_in_a_group_the_agent_is_addressed_by_its_name(
    server: Synapse, agent: Person, hana: Person, sam: Person
) -> None:
    inbox = RecordingInbox(hana.id)
    async with running(_matrix(server, agent), inbox):
        room = await asyncio.to_thread(partial(hana.open_room, agent.id, sam.id, direct=False))
        await asyncio.to_thread(sam.join, room)
        for text, more in (
            ("Nobody asked", {}),
            ("By mention", {"m.mentions": {"user_ids": [agent.id]}}),
            (f"{agent.id} by id", {}),
            (f"{agent.id.split(':')[0][1:]}s are many", {}),
        ):
            await asyncio.to_thread(partial(hana.say, room, text, **more))
        root = await asyncio.to_thread(hana.say, room, "Root")
        relation = {"rel_type": "m.thread", "event_id": root}
        await asyncio.to_thread(partial(sam.say, room, "In a thread", **{"m.relates_to": relation}))
        await asyncio.to_thread(
            partial(sam.say, room, "* edited", **{"m.relates_to": {**relation, "rel_type": "m.replace"}})
        )
        await asyncio.to_thread(partial(sam.say, room, "A program wrote", msgtype="m.notice"))
        await until(lambda: len(inbox.messages) == 7)
    assert [each.is_addressed for each in inbox.messages] == [False, True, True, False, False, False, False]
    assert all(each.is_group for each in inbox.messages)
    assert [each.thread for each in inbox.messages] == [room] * 5 + [f"{room} {root}", room]
    assert [each.is_automatic for each in inbox.messages] == [False] * 6 + [True]


async def test_files_come_along(server: Synapse, agent: Person, hana: Person) -> None:
    inbox = RecordingInbox(hana.id)
    async with running(_matrix(server, agent), inbox):
        room = await asyncio.to_thread(hana.open_room, agent.id)
        await asyncio.to_thread(hana.attach, room, "a.png", png(), "image/png")
        captioned = partial(hana.attach, room, "See this", b"Zebra", "text/plain", filename="a.txt")
        await asyncio.to_thread(captioned)
        await asyncio.to_thread(hana.attach, room, "film.mp4", b"\0" * 26_000_000, "video/mp4")
        gone = partial(hana.say, room, "gone.txt", msgtype="m.file", url="mxc://matrix.example/nothing")
        await asyncio.to_thread(gone)
        await until(lambda: len(inbox.messages) == 4)
    [[image], [text], [film], [missing]] = [each.files for each in inbox.messages]
    assert image == File(name="a.png", media_type="image/png", data=png())
    assert text == File(name="a.txt", media_type="text/plain", data=b"Zebra")
    assert (film.data, film.problem) == (b"", "larger than 25 MB")
    assert (missing.data, missing.problem) == (b"", "the server answered 404")
    assert inbox.texts() == ["", "See this", "", ""]


async def test_an_answer_leaves_once_however_often_it_is_sent(
    server: Synapse, agent: Person, hana: Person
) -> None:
    inbox = RecordingInbox(hana.id)
    adapter = _matrix(server, agent)
    text = "**Two** trains <b>\n\n" + "\n\n".join("word " * 1_000 for _ in range(3))
    delivery = Delivery(
        key="evt_1",
        thread="",
        text=text,
        files=(File(name="map.png", media_type="image/png", data=png()),),
    )
    with pytest.raises(DeliveryError, match="not connected"):
        await adapter.deliver(delivery)
    async with running(adapter, inbox):
        room = await asyncio.to_thread(hana.open_room, agent.id)
        asked = await asyncio.to_thread(hana.say, room, "Which trains?")
        await until(lambda: inbox.messages)
        delivery = replace(delivery, thread=room, reply_to=asked)
        first = await adapter.deliver(delivery)
        assert await adapter.deliver(delivery) == first
    adapter = _matrix(server, agent)
    async with running(adapter, inbox):
        assert await adapter.deliver(delivery) == first, "also after a restart"
        in_thread = replace(delivery, key="evt_2", thread=f"{room} {asked}", text="Here", files=())
        await adapter.deliver(in_thread)
        with pytest.raises(DeliveryError) as caught:
            await adapter.deliver(replace(delivery, key="evt_3", thread="!nothing:matrix.example"))
        assert caught.value.final
    *texts, file, threaded = [each["content"] for each in await asyncio.to_thread(hana.heard, room)]
    assert " ".join(each["body"] for each in texts).split() == text.split()
    assert len(texts) == 3
    assert texts[0]["m.relates_to"]["m.in_reply_to"]["event_id"] == asked
    assert "m.relates_to" not in texts[1]
    assert "<strong>Two</strong>" in texts[0]["formatted_body"]
    assert "<b>" not in texts[0]["formatted_body"]
    assert (file["msgtype"], file["body"]) == ("m.image", "map.png")
    assert await asyncio.to_thread(hana.download, file["url"]) == png()
    assert threaded["m.relates_to"]["rel_type"] == "m.thread"
    assert all(each.thread == room and each.sender == hana.id for each in inbox.messages)


async def test_edits_come_in_and_go_out(server: Synapse, agent: Person, hana: Person) -> None:
    inbox, adapter = RecordingInbox(hana.id), _matrix(server, agent)
    room = await asyncio.to_thread(hana.open_room, agent.id)
    async with running(adapter, inbox):
        first = await asyncio.to_thread(hana.say, room, "Meet at 5")
        new = {"msgtype": "m.text", "body": "Meet at 6"}
        related = {"rel_type": "m.replace", "event_id": first}
        edit = partial(hana.say, room, "* Meet at 6", **{"m.new_content": new, "m.relates_to": related})
        await asyncio.to_thread(edit)
        await until(lambda: len(inbox.messages) == 2)
        assert [(each.text, each.edits) for each in inbox.messages] == [
            ("Meet at 5", None),
            ("Meet at 6", first),
        ]
        sent = await adapter.deliver(Delivery(key="evt_1", thread=room, text="At **5**"))
        change = Delivery(key="evt_2", thread=room, text="At **6**", edits=sent)
        assert await adapter.deliver(change) == sent
        await adapter.show_work(room, first, ended=False)
        await until(lambda: asyncio.to_thread(hana.sees_typing, room, agent.id))
        await adapter.show_work(room, first, ended=True)

        async def is_over() -> bool:
            return not await asyncio.to_thread(hana.sees_typing, room, agent.id)

        await until(is_over)
    *_, changed = [each["content"] for each in await asyncio.to_thread(hana.heard, room)]
    assert changed["m.relates_to"] == {"rel_type": "m.replace", "event_id": sent}
    assert changed["m.new_content"]["body"] == "At **6**"
    assert "<strong>6</strong>" in changed["m.new_content"]["formatted_body"]


async def test_encrypted_rooms_and_broken_events_are_set_aside_and_people_told(
    server: Synapse, agent: Person, hana: Person
) -> None:
    inbox = RecordingInbox(hana.id)
    async with running(_matrix(server, agent), inbox):
        room = await asyncio.to_thread(hana.open_room, agent.id)
        await asyncio.to_thread(partial(hana.say, room, "no.txt", msgtype="m.file", url=["mxc://x"]))
        await asyncio.to_thread(partial(hana.say, room, "odd", filename=["x"], format=7))
        secret = partial(
            hana.say, room, "", kind="m.room.encrypted", algorithm="m.megolm.v1.aes-sha2", ciphertext="x"
        )
        await asyncio.to_thread(secret)
        await asyncio.to_thread(secret)
        await asyncio.to_thread(hana.say, room, "plain")
        await until(lambda: len(inbox.messages) == 2)
    assert inbox.texts() == ["odd", "plain"]
    assert len(inbox.put_aside) == 3
    [told] = await asyncio.to_thread(hana.texts, room)
    assert "encrypted" in told


async def test_a_wrong_password_is_told_and_a_right_one_logs_in(server: Synapse, agent: Person) -> None:
    name = agent.id.split(":")[0][1:]
    right = Matrix(url=server.url, user=agent.id, secret=f"{name}-password")
    assert await right.own_id() == agent.id
    with pytest.raises(ConnectionError, match="Invalid username or password"):
        await Matrix(url=server.url, user=agent.id, secret="wrong").run(RecordingInbox())
    with pytest.raises(ConnectionError, match="access token"):
        await Matrix(url=server.url, secret="wrong").run(RecordingInbox())
    with pytest.raises(ConnectionError):
        await Matrix(url="http://127.0.0.1:1", secret="x").run(RecordingInbox())


class TestContract(AdapterContract):
    """The published checks."""

    repeats_deliveries = False

    @pytest.fixture(autouse=True)
    def service(self, server: Synapse, agent: Person, hana: Person) -> None:
        self._server, self._agent, self._hana = server, agent, hana
        self._room = hana.open_room(agent.id)

    def adapter(self) -> Matrix:
        return _matrix(self._server, self._agent)

    def inbox(self) -> RecordingInbox:
        return RecordingInbox(self._hana.id)

    async def write(self, text: str) -> None:
        await asyncio.to_thread(self._hana.say, self._room, text)

    async def sent(self) -> list[str]:
        return await asyncio.to_thread(self._hana.texts, self._room)

    async def sent_files(self) -> list[bytes]:
        heard = await asyncio.to_thread(self._hana.heard, self._room)
        urls = [each["content"]["url"] for each in heard if "url" in each["content"]]
        return [await asyncio.to_thread(self._hana.download, url) for url in urls]
