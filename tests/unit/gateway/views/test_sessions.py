"""Sessions and their transcripts."""

from itertools import chain
from typing import get_args

import apsw

from nexus.gateway.views import sessions
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents.messages import NewMessage
from unit.gateway.scene import Scene


async def test_sessions_are_listed_with_what_was_last_said(scene: Scene) -> None:
    await scene.converse("Hello", "How are you?")
    await scene.converse("Other", label="second")
    found = (await sessions.load_page(scene.ledgers)).items
    assert {(line.label, line.turns, line.last_said) for line in found} == {
        ("main", 2, "Answer to: How are you?"),
        ("second", 1, "Answer to: Other"),
    }


async def test_sessions_are_listed_by_whose_they_are(scene: Scene) -> None:
    labels = {
        "people": ["main", "runner", "telegram:4471"],
        "runs": ["run:ses_1"],
        "workers": ["worker:01", "subworker:01"],
        "automations": ["meeseeks:memory-writer:main:exe_1"],
    }
    for label in chain.from_iterable(labels.values()):
        await scene.converse(f"Said in {label}", label=label)
    labels["imported"] = []
    for kind in get_args(sessions.Kind):
        found = (await sessions.load_page(scene.ledgers, kind=kind)).items
        assert [line.label for line in found] == labels[kind][::-1]
    (line,) = (await sessions.load_page(scene.ledgers, kind="automations")).items
    assert line.title == "memory-writer"
    assert await sessions.load_title(scene.ledgers, "worker:01") == "Said in worker:01"


async def test_pages_of_all_sessions_go_on_by_last_use(scene: Scene) -> None:
    said = ["main", "worker:01", "run:ses_1", "meeseeks:notes:1", "other"]
    for label in said:
        await scene.converse("Hello", label=label)
    seen, cursor = list[str](), None
    for _ in range(3):
        found = await sessions.load_page(scene.ledgers, cursor=cursor, limit=2)
        seen += [line.label for line in found.items]
        cursor = found.next
    assert seen == said[::-1]
    assert cursor is None


async def test_what_somebody_said_is_as_long_as_what_the_model_was_shown(scene: Scene) -> None:
    (event_id,) = await scene.say("x" * 8_000)

    def work(connection: apsw.Connection) -> None:
        turn = turns.begin(
            connection, session_label="main", execution_id="exe_1", request_id="req_1", role="manager"
        )
        said = [NewMessage(role="user", content="x" * 8_100, parts_json=None, event_id=event_id)]
        messages.append(connection, turn, 0, said)

    await scene.ledgers.agents.write(work)
    session = await sessions.get(scene.ledgers, "main")
    for most, characters in ((6_000, 6_000), (20_000, 8_000)):
        (message,) = (await sessions.load_transcript(scene.ledgers, session.id, most=most)).items
        assert len(message.said or "") == characters
        assert message.is_cut == (characters < 8_000), "what is cut has a link to the rest"


async def test_a_line_tells_what_somebody_said_and_not_how_the_model_was_shown_it(scene: Scene) -> None:
    (event_id,) = await scene.say("Is there tea?")

    def work(connection: apsw.Connection) -> None:
        turn = turns.begin(
            connection, session_label="main", execution_id="exe_1", request_id="req_1", role="manager"
        )
        shown = "<situation>It is Monday</situation> Is there tea?"
        said = [NewMessage(role="user", content=shown, parts_json=None, event_id=event_id)]
        messages.append(connection, turn, 0, said)

    await scene.ledgers.agents.write(work)
    (line,) = (await sessions.load_page(scene.ledgers)).items
    assert line.last_said == "Is there tea?"


async def test_a_transcript_begins_with_the_newest_page_and_goes_back(scene: Scene) -> None:
    await scene.converse("One", "Two")
    session = await sessions.get(scene.ledgers, "main")
    newest = await sessions.load_transcript(scene.ledgers, session.id, limit=3)
    assert [each.content for each in newest.items] == ["Answer to: One", "Two", "Answer to: Two"]
    older = await sessions.load_transcript(scene.ledgers, session.id, limit=3, cursor=newest.next)
    assert [each.content for each in older.items] == ["One"]
    assert older.next is None


async def test_a_long_message_is_cut_and_can_be_read_whole(scene: Scene) -> None:
    await scene.converse("x" * 20_000)
    session = await sessions.get(scene.ledgers, "main")
    first = (await sessions.load_transcript(scene.ledgers, session.id)).items[0]
    assert first.is_cut
    assert len(first.content) == sessions.MOST_CHARACTERS
    whole = await sessions.get_message(scene.ledgers, first.id)
    assert len(whole.content) == 20_000
