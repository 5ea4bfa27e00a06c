"""What a model sees of what was said before."""

from nexus.ledgers.agents import history, turns
from unit.ledgers.agents.conversation import Conversation


def test_turns_that_are_done_come_back_whole_and_in_order(talk: Conversation) -> None:
    talk.turn("u:one", "a:call", "t:result", "a:answer")
    talk.turn("u:two", "a:yes")

    assert talk.history() == ["u:one", "a:call", "t:result", "a:answer", "u:two", "a:yes"]


def test_a_turn_sees_what_lies_before_it_and_nothing_of_itself(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    now = talk.begin()
    talk.append(now, 0, "u:two", "a:call")

    assert talk.before(now) == ["u:one", "a:1"]


def test_a_session_that_nobody_knows_has_no_history(talk: Conversation) -> None:
    assert history.load(talk.connection, "elsewhere") == history.History()


def test_sessions_do_not_hear_each_other(talk: Conversation) -> None:
    talk.turn("u:mine", "a:1", label="one")
    talk.turn("u:yours", "a:2", label="two")

    assert talk.history("one") == ["u:mine", "a:1"]


def test_a_cancelled_turn_keeps_what_can_be_kept_and_says_so(talk: Conversation) -> None:
    talk.turn("u:go", "a:call", "t:result", "a:dangling call", end="cancelled")

    assert talk.history() == [
        *("u:go", "a:call", "t:result"),
        "dangling call\n\n(This turn was cancelled before it was finished.)",
    ]


def test_a_failed_turn_says_why_in_one_line(talk: Conversation) -> None:
    talk.turn("u:go", end="failed", error=f"LimitError: too many{'!' * 400}\nRaise it.")

    assert talk.history() == ["u:go", f"(This turn failed: {'LimitError: too many' + '!' * 280})"]


def test_a_turn_that_a_crash_left_open_is_said_to_be_interrupted(talk: Conversation) -> None:
    talk.turn("u:go", "a:call", end=None)
    talk.turn("u:and now?", "a:here", label="main")

    assert talk.history() == [
        *("u:go", "(This turn was interrupted and not finished.)"),
        *("u:and now?", "a:here"),
    ]


def test_an_unfinished_turn_of_which_nothing_can_be_kept_leaves_nothing(talk: Conversation) -> None:
    talk.turn("a:dangling", end="failed", error="x")
    talk.begin()

    assert talk.history() == []


def test_a_summary_stands_for_the_turns_that_it_sums_up(talk: Conversation) -> None:
    talk.turn("u:old", "a:1")
    last = talk.turn("u:older", "a:2")
    talk.turn("u:recent", "a:3")
    talk.summary("u:what was said so far", through=last.position)
    now = talk.turn("u:new", "a:4")

    assert talk.history() == ["u:what was said so far", "u:recent", "a:3", "u:new", "a:4"]
    assert talk.before(now) == ["u:what was said so far", "u:recent", "a:3"]
    assert talk.count("agent_messages") == 9


def test_of_several_summaries_the_newest_that_is_done_counts(talk: Conversation) -> None:
    first = talk.turn("u:one", "a:1")
    talk.summary("u:first", through=first.position)
    second = talk.turn("u:two", "a:2")
    talk.summary("u:second", through=second.position)
    third = talk.turn("u:three", "a:3")
    talk.summary("u:broken", through=third.position, end="failed")

    assert talk.history() == ["u:second", "u:three", "a:3"]


def test_a_fork_begins_with_its_parents_past_and_goes_on_alone(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    fork = talk.turn("u:aside", "a:noted", label="fork", fork_of="main")
    talk.turn("u:two", "a:2")
    talk.turn("u:more", "a:yes", label="fork")

    assert talk.history("fork") == ["u:one", "a:1", "u:aside", "a:noted", "u:more", "a:yes"]
    assert talk.history() == ["u:one", "a:1", "u:two", "a:2"]
    assert talk.before(fork) == ["u:one", "a:1"]
    assert talk.count("agent_messages") == 8


def test_a_fork_sees_nothing_of_a_turn_under_way(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    running = talk.begin()
    talk.append(running, 0, "u:two", "a:dispatch")
    talk.turn("u:task", "a:done", label="fork", fork_of="main")
    talk.append(running, 2, "t:dispatched", "a:2")

    assert talk.history("fork") == ["u:one", "a:1", "u:task", "a:done"]


def test_forks_of_forks_see_the_whole_line(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    talk.turn("u:two", "a:2", label="child", fork_of="main")
    talk.turn("u:three", "a:3", label="grandchild", fork_of="child")
    talk.begin("silent", fork_of="grandchild")
    last = talk.turn("u:four", "a:4", label="last", fork_of="silent")

    assert talk.history("last") == ["u:one", "a:1", "u:two", "a:2", "u:three", "a:3", "u:four", "a:4"]
    assert last.position == 4, "the turn that said nothing holds its place"


def test_a_summary_of_the_parents_is_the_forks_too_but_not_a_later_one(talk: Conversation) -> None:
    first = talk.turn("u:one", "a:1")
    talk.summary("u:first", through=first.position)
    second = talk.turn("u:two", "a:2")
    talk.turn("u:aside", "a:noted", label="fork", fork_of="main")
    talk.summary("u:second", through=second.position)

    assert talk.history("fork") == ["u:first", "u:two", "a:2", "u:aside", "a:noted"]
    assert talk.history() == ["u:second"]


def test_a_fork_can_sum_up_its_parents_past_for_itself(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    inherited = talk.turn("u:two", "a:2")
    talk.turn("u:aside", "a:noted", label="fork", fork_of="main")
    talk.summary("u:so far", through=inherited.position, label="fork")

    assert talk.history("fork") == ["u:so far", "u:aside", "a:noted"]
    assert talk.history() == ["u:one", "a:1", "u:two", "a:2"]


def test_a_fork_of_a_session_without_a_past_is_an_ordinary_session(talk: Conversation) -> None:
    talk.turn("u:task", "a:done", label="fork", fork_of="nobody")

    assert talk.history("fork") == ["u:task", "a:done"]


def test_what_a_parent_says_after_forgetting_does_not_slip_into_its_fork(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    gone = talk.turn("u:secret", "a:2")
    talk.turn("u:aside", "a:noted", label="fork", fork_of="main")
    talk.connection.execute("DELETE FROM agent_messages WHERE turn_id = ?", (gone.id,))
    talk.connection.execute("DELETE FROM agent_turns WHERE id = ?", (gone.id,))
    talk.turn("u:later", "a:3")

    assert talk.history("fork") == ["u:one", "a:1", "u:aside", "a:noted"]
    assert talk.history() == ["u:one", "a:1", "u:later", "a:3"]


def test_a_replaced_turn_and_those_after_it_are_no_history_any_more(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    talk.turn("u:two", "a:2")
    talk.turn("u:three", "a:3")
    now = talk.begin(run="exe_new", replaces="exe_2")

    assert talk.before(now) == ["u:one", "a:1"]
    # Killed and run again, it finds the same turn with the same history.
    assert talk.begin(run="exe_new", replaces="exe_2") == now
    talk.append(now, 0, "u:zwei", "a:new")
    turns.end(talk.connection, now.id, "done")
    talk.turn("u:four", "a:4")
    assert talk.history() == ["u:one", "a:1", "u:zwei", "a:new", "u:four", "a:4"]
    # Nothing was removed, and it is known what was taken back.
    assert history.load(talk.connection, "main").taken_back == {"evt_two", "evt_three"}
    assert talk.connection.execute("SELECT count(*) FROM agent_messages").get == 10


def test_a_summary_of_turns_that_were_replaced_counts_no_more(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    talk.turn("u:two", "a:2")
    talk.summary("a:so far", 1)
    now = talk.begin(run="exe_new", replaces="exe_2")

    assert talk.before(now) == ["u:one", "a:1"]


def test_a_fork_from_before_a_replacement_keeps_what_it_was_forked_with(talk: Conversation) -> None:
    talk.turn("u:one", "a:1")
    talk.turn("u:two", "a:2")
    talk.turn("u:aside", "a:x", label="fork", fork_of="main")
    now = talk.begin(run="exe_new", replaces="exe_2")
    talk.append(now, 0, "u:zwei", "a:new")

    assert talk.history("fork") == ["u:one", "a:1", "u:two", "a:2", "u:aside", "a:x"]
