"""Whatever is said, forked, summed up and repeated: a history is what a plain copy of it would be."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nexus.ledgers.agents import history, messages, turns
from nexus.ledgers.agents.turns import End, OpenTurn
from unit.ledgers.agents.conversation import Conversation, said

_NOTES = {
    "failed": "(This turn failed: out of money)",
    "cancelled": "(This turn was cancelled before it was finished.)",
}
_SHAPES = st.sampled_from(["u", "ua", "uat", "uata", "uatata", "a", ""])
_ENDS = st.sampled_from(["done", "done", "done", "failed", "cancelled"])
_SESSIONS = st.integers(min_value=0, max_value=3)
_TALK = st.tuples(st.just("talk"), _SESSIONS, _SHAPES, _ENDS)
_FORK = st.tuples(st.just("fork"), _SESSIONS, _SHAPES, _ENDS)
_SUM_UP = st.tuples(st.just("sum up"), _SESSIONS, st.integers(min_value=0, max_value=5), st.none())


@dataclass
class Copy:
    """A session that copies where the ledger shares: its turns by position, each as lines, and a summary."""

    label: str
    turns: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])
    summary: list[str] = field(default_factory=list[str])

    @property
    def lines(self) -> list[str]:
        return [*self.summary, *(line for _, lines in self.turns for line in lines)]


def left(lines: list[str], end: str) -> list[str]:
    """What a turn leaves in the history."""
    if end == "done":
        return lines
    note = _NOTES[end]
    while lines and lines[-1].startswith("a:"):
        # Of an answer that was stopped, the text is kept.
        note = f"{lines[-1][2:]}\n\n{_NOTES[end]}" if end == "cancelled" else note
        lines = lines[:-1]
    return [*lines, note] if lines else []


class Both:
    """The ledger, and copies of what it should hold."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self.copies = [Copy("s0")]
        self.runs = 0

    def say(self, copy: Copy, shape: str, end: End, fork_of: str | None = None) -> None:
        self.runs += 1
        lines = [f"{who}:{self.runs}.{place}" for place, who in enumerate(shape)]
        # As a run that is killed at its end does: everything is written, and then everything again.
        opened = [self._write(copy.label, lines, end, fork_of, stop) for stop in (len(lines) // 2, None)]
        assert opened[0] == opened[1]
        copy.turns.append((opened[0].position, left(lines, end)))

    def _write(
        self, label: str, lines: list[str], end: End, fork_of: str | None, stop: int | None
    ) -> OpenTurn:
        turn = self.talk.begin(label, run=f"exe_{self.runs}", fork_of=fork_of)
        messages.append(self.talk.connection, turn, 0, [said(line) for line in lines[:stop]])
        if stop is None:
            turns.end(self.talk.connection, turn.id, end, error="out of money\nsee the hint")
        return turn

    def fork(self, parent: Copy, shape: str, end: End) -> None:
        copy = Copy(f"s{len(self.copies)}", list(parent.turns), list(parent.summary))
        self.copies.append(copy)
        self.say(copy, shape, end, fork_of=parent.label)

    def sum_up(self, copy: Copy, count: int) -> None:
        old = copy.turns[:count]
        if not old:
            return
        line = f"u:summary of {old[-1][0]}"
        self.talk.summary(line, old[-1][0], copy.label)
        copy.summary, copy.turns = [line], copy.turns[len(old) :]


@settings(max_examples=150, deadline=None)
@example([("talk", 0, "", "done"), ("fork", 0, "u", "done"), ("sum up", 1, 1, None)])
@given(st.lists(st.one_of(_TALK, _TALK, _FORK, _SUM_UP), max_size=14))
def test_a_history_is_what_a_plain_copy_would_be(steps: list[tuple[str, int, Any, Any]]) -> None:
    both = Both()
    for step, which, *what in steps:
        copy = both.copies[which % len(both.copies)]
        if step == "talk":
            both.say(copy, *what)
        elif step == "fork":
            both.fork(copy, *what)
        else:
            both.sum_up(copy, what[0])
        for each in both.copies:
            assert both.talk.history(each.label) == each.lines


def test_the_comparison_sees_a_lost_message() -> None:
    both = Both()
    both.say(both.copies[0], "ua", "done")
    both.talk.connection.execute("DELETE FROM agent_messages WHERE role = 'assistant'")

    assert both.talk.history("s0") != both.copies[0].lines
    assert history.load(both.talk.connection, "s0").turns
