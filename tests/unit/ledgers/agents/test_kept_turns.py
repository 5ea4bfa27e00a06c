"""Turns that have ended are read once, and whatever changes them is seen at once."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from nexus.ledgers.agents import history, messages, turns
from nexus.ledgers.agents.history import Recent
from unit.ledgers.agents.conversation import Conversation, said

Change = Callable[[Conversation, apsw.Connection], object]

_OF_SECOND = "turn_id = (SELECT id FROM agent_turns WHERE position = 1)"


def _add_to_ended(talk: Conversation, other: apsw.Connection) -> None:
    """As a process does that was frozen and has lost its run."""
    turn = turns.begin(other, session_label="main", execution_id="exe_3", request_id="req_1", role="manager")
    messages.append(other, turn, 2, [said("u:late")])


def _edit(talk: Conversation, other: apsw.Connection) -> None:
    turn = talk.begin(run="exe_edited", replaces="exe_2")
    talk.append(turn, 0, "u:zwei", "a:neu")
    turns.end(talk.connection, turn.id, "done")


CHANGES: dict[str, tuple[Change, list[str]]] = {
    "a turn is forgotten": (
        lambda talk, other: other.execute(
            f"DELETE FROM agent_messages WHERE {_OF_SECOND}; DELETE FROM agent_turns WHERE position = 1"
        ),
        ["u:one", "a:1", "u:three", "a:3"],
    ),
    "the last turn is forgotten and another is said": (
        lambda talk, other: (
            other.execute(
                "DELETE FROM agent_messages WHERE position >= 4; DELETE FROM agent_turns WHERE position = 2"
            ),
            talk.turn("u:drei", "a:III"),
        ),
        ["u:one", "a:1", "u:two", "a:2", "u:drei", "a:III"],
    ),
    "a message is changed": (
        lambda talk, other: other.execute(
            f"UPDATE agent_messages SET parts_json = '[\"a:II\"]' WHERE role = 'assistant' AND {_OF_SECOND}"
        ),
        ["u:one", "a:1", "u:two", "a:II", "u:three", "a:3"],
    ),
    "a turn that had ended gets a message": (
        _add_to_ended,
        ["u:one", "a:1", "u:two", "a:2", "u:three", "a:3", "u:late"],
    ),
    "a turn is said to have failed": (
        lambda talk, other: other.execute("UPDATE agent_turns SET status = 'failed' WHERE position = 1"),
        ["u:one", "a:1", "u:two", "(This turn failed.)", "u:three", "a:3"],
    ),
    "a message is edited": (_edit, ["u:one", "a:1", "u:zwei", "a:neu"]),
    "it is summed up": (
        lambda talk, other: talk.summary("u:so far", through=1),
        ["u:so far", "u:three", "a:3"],
    ),
    "a turn is added": (
        lambda talk, other: talk.turn("u:four", "a:4"),
        ["u:one", "a:1", "u:two", "a:2", "u:three", "a:3", "u:four", "a:4"],
    ),
}


@pytest.mark.parametrize(("change", "seen"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_at_once_whoever_makes_it(change: Change, seen: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "agents.db")
    talk, other = Conversation(file), apsw.Connection(file)
    for number, word in enumerate(("one", "two", "three"), start=1):
        talk.turn(f"u:{word}", f"a:{number}")
    assert len(talk.history()) == 6

    change(talk, other)

    assert talk.history() == seen
    assert talk.history() == seen, "also of what is kept now"


def test_a_turn_that_has_ended_is_read_once_and_a_fork_shares_it(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    talk.turn("u:two", "a:2")
    before = history.load(talk.connection, "main", ledger=talk).turns
    talk.turn("u:three", "a:3")
    talk.turn("u:aside", "a:x", label="fork", fork_of="main")
    talk.turn("u:four", "a:4")

    after = history.load(talk.connection, "main", ledger=talk).turns
    assert [now is then for now, then in zip(after, before, strict=False)] == [True, True]
    forked = history.load(talk.connection, "fork", ledger=talk).turns
    assert [now is then for now, then in zip(forked[:3], after, strict=False)] == [True, True, True]
    assert after[0].derive(str) is before[0].derive(str)
    assert talk.connection.execute("SELECT max(revision) FROM agent_sessions").get == 0, (
        "talking changes nothing"
    )


def test_a_turn_that_is_under_way_is_read_again_with_those_behind_it(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    held_up = talk.begin()
    talk.turn("u:three", "a:3")
    assert talk.history() == ["u:one", "a:1", "u:three", "a:3"]

    late = talk.begin(run="exe_2")
    assert late.id == held_up.id
    talk.append(late, 0, "u:two", "a:2")
    assert talk.history()[:5] == ["u:one", "a:1", "u:three", "a:3", "u:two"]
    turns.end(talk.connection, late.id, "done")
    assert talk.history() == ["u:one", "a:1", "u:three", "a:3", "u:two", "a:2"]


def test_what_lies_before_a_turn_stays_the_same_when_more_is_said(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    second = talk.turn("u:two", "a:2", end="cancelled")
    talk.turn("u:three", "a:3")
    whole = talk.history()

    assert talk.before(second) == ["u:one", "a:1"]
    assert talk.history() == whole


def test_two_ledgers_with_the_same_sessions_are_told_apart(tmp_path: Path) -> None:
    first = Conversation(str(tmp_path / "one.db"))
    first.turn("u:one", "a:1")
    first.history()
    first.connection.execute("VACUUM INTO ?", (str(tmp_path / "two.db"),))
    copy = apsw.Connection(str(tmp_path / "two.db"))
    copy.execute(
        "DELETE FROM agent_messages; DELETE FROM agent_turns; UPDATE agent_sessions SET revision = 0"
    )

    assert history.load(copy, "main", ledger=copy).messages == []
    assert first.history() == ["u:one", "a:1"]


def test_what_is_kept_is_bounded(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "recent", recent := Recent(most_characters=5_000))
    for number in range(20):
        label = f"s{number % 5}"
        talk.turn(f"u:{'x' * 100}", "a:yes", label=label)
        assert talk.history(label)[-1] == "a:yes"
        assert recent.characters <= 5_000
    assert recent.characters > 0

    talk.turn(f"u:{'y' * 6_000}", "a:long", label="long")
    assert talk.history("long")[-1] == "a:long"
    assert recent.characters <= 5_000

    talk.history("s0")
    recent.drop(talk)
    assert recent.characters == 0, "a closed home keeps nothing"
