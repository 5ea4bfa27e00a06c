"""What a run writes into the agents ledger is written once, however often the run is repeated."""

import pytest

from nexus.errors import LedgerError
from nexus.ledgers.agents import messages, sessions, tool_calls, turns
from nexus.ledgers.agents.tool_calls import ToolCall
from nexus.ledgers.agents.turns import OpenTurn
from unit.ledgers.agents.conversation import Conversation, said


def call(talk: Conversation, turn: OpenTurn, call_id: str = "call_1", offset: int = 1) -> ToolCall:
    return tool_calls.begin(
        talk.connection, turn, offset=offset, call_id=call_id, tool_name="bash", arguments_json="{}"
    )


def test_a_repeated_run_finds_its_turn(talk: Conversation) -> None:
    talk.turn("u:before", "a:1")
    first = talk.begin(run="exe_x")
    assert talk.begin(run="exe_x") == first
    talk.append(first, 0, "u:now", "a:call")

    assert talk.begin(run="exe_x") == first
    assert (first.position, first.first_position) == (1, 2)
    assert talk.count("agent_turns") == 2


def test_a_repeated_run_appends_nothing_twice_and_goes_on_where_it_was(talk: Conversation) -> None:
    turn = talk.begin(run="exe_x")
    ids = talk.append(turn, 0, "u:now", "a:call")
    again = talk.begin(run="exe_x")

    assert talk.append(again, 0, "u:now", "a:call", "t:result")[:2] == ids
    turns.end(talk.connection, turn.id, "done")
    assert talk.history() == ["u:now", "a:call", "t:result"]


def test_what_the_run_that_went_on_said_stands(talk: Conversation) -> None:
    turn = talk.begin()
    (first,) = talk.append(turn, 0, "u:at nine")

    assert talk.append(turn, 0, "u:at ten") == [first]
    turns.end(talk.connection, turn.id, "done")
    assert talk.history() == ["u:at ten"]


def test_a_place_of_another_turn_cannot_be_written_to(talk: Conversation) -> None:
    one, other = talk.begin(), talk.begin()
    talk.append(one, 0, "u:mine")

    with pytest.raises(LedgerError, match="another turn"):
        talk.append(other, 0, "u:yours")


def test_the_first_end_of_a_turn_stands(talk: Conversation) -> None:
    turn = talk.begin()

    assert turns.end(talk.connection, turn.id, "failed", error="half a pair: \ud800")
    assert not turns.end(talk.connection, turn.id, "done")
    assert talk.connection.execute("SELECT status, error FROM agent_turns").get == (
        "failed",
        "half a pair: \ufffd",
    )


def test_a_call_is_begun_once_and_tells_what_became_of_it(talk: Conversation) -> None:
    turn = talk.turn("u:go", "a:call", end=None)
    first = call(talk, turn)
    assert (first.is_new, first.status, first.is_interrupted) == (True, "running", False)

    again = call(talk, turn)
    assert (again.id, again.is_new, again.is_interrupted) == (first.id, False, True)

    assert tool_calls.end(talk.connection, first.id, "done", result="42")
    assert not tool_calls.end(talk.connection, first.id, "failed", error="late")
    ended = call(talk, turn)
    assert (ended.status, ended.result, ended.is_interrupted) == ("done", "42", False)


def test_the_same_id_in_another_message_or_turn_is_another_call(talk: Conversation) -> None:
    turn = talk.turn("u:go", "a:call", "t:result", "a:call again", end=None)
    elsewhere = talk.turn("u:go", "a:call", label="other", end=None)

    calls = [call(talk, turn), call(talk, turn, offset=3), call(talk, elsewhere)]
    assert all(one.is_new for one in calls)


def test_a_call_belongs_to_the_message_that_asked_for_it(talk: Conversation) -> None:
    turn = talk.begin()
    _, asking = talk.append(turn, 0, "u:go", "a:call")
    call(talk, turn)

    assert talk.connection.execute("SELECT message_id FROM agent_tool_calls").get == asking


def test_calls_under_way_end_with_their_turn(talk: Conversation) -> None:
    turn = talk.turn("u:go", "a:call", end=None)
    done, running = call(talk, turn, "1"), call(talk, turn, "2")
    tool_calls.end(talk.connection, done.id, "done", result="x")
    turns.end(talk.connection, turn.id, "cancelled")

    states = talk.connection.execute("SELECT id, status FROM agent_tool_calls").fetchall()
    assert set(states) == {(done.id, "done"), (running.id, "cancelled")}


def test_a_summary_and_the_turn_after_it_belong_to_one_run(talk: Conversation) -> None:
    old = talk.turn("u:old", "a:1")

    def both() -> tuple[OpenTurn, OpenTurn]:
        summary = turns.begin_summary(
            talk.connection,
            session_label="main",
            execution_id="exe_x",
            request_id="req_1",
            role="manager",
            summarises_through=old.position,
        )
        assert talk.before(summary) == ["u:old", "a:1"]
        talk.append(summary, 0, "u:summed up")
        turns.end(talk.connection, summary.id, "done")
        exchange = talk.begin(run="exe_x")
        assert talk.before(exchange) == ["u:summed up"]
        talk.append(exchange, 0, "u:new")
        return summary, exchange

    assert both() == both()
    assert talk.count("agent_messages") == 4


def test_a_session_is_made_once_and_keeps_what_it_was_made_with(talk: Conversation) -> None:
    talk.turn("u:one", "a:1", label="other")
    made = sessions.ensure(talk.connection, "main", role="manager", thread_id="thr_1")

    assert sessions.ensure(talk.connection, "main", role="worker", fork_of="other") == made
    assert sessions.get(talk.connection, "main") == made
    assert (made.role, made.thread_id, made.forked_at_position) == ("manager", "thr_1", None)


def test_a_message_keeps_its_exact_parts_and_readable_text(talk: Conversation) -> None:
    turn = talk.begin()
    exact = '{"parts":[{"content":"caf\u00e9 \\ud83d \\u0000"}]}'
    new = messages.NewMessage(role="user", content="caf\u00e9", parts_json=exact, event_id="evt_1")
    messages.append(talk.connection, turn, 0, [new, said("a:yes")])
    row = talk.connection.execute("SELECT content, parts_json, event_id FROM agent_messages").fetchone()

    assert row == ("caf\u00e9", exact, "evt_1")
