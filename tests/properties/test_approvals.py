"""Whatever is called, changed, answered and allowed: nothing runs that its approver wasn't shown.

A scene is a random interleaving of calls by the owner and guests, of runs that are stopped or ask for another
call in the same place, and of answers that name a question, an old one or none. What the owner was shown is
read back from the text of the question. NEXUS_LONG=1 plays two thousand scenes.
"""

import json
import random
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from long_form import times
from nexus import ids
from nexus.broker.approvals import Approvals, Decision, Reason
from nexus.broker.questions import FOLD_CHARACTERS, Rule, code_of, question, render, suggest_rule
from nexus.config import ToolsConfig
from nexus.errors import NexusError, ToolError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.approvals import Approval, hash_call
from nexus.ledgers.runtime.executions import NewExecution
from nexus.request import Access, Agent, Event, Request

SCENES = times(40, long=100)
HOMES = times(1, long=20)
"""Each with its own scenes: what waits in one home makes its next question dearer."""
STEPS = 20
_HEAD = re.compile(r"(?P<name>.+) \((?P<json>JSON, )?[\d,]+ characters?\)")
_BAR = "│ "
_BAR_WITHIN = "┊ "
_OWNER = Access(level="owner", tools=None, memory="all", sessions=("*",))
_GUEST = Access(level="known", tools=frozenset({"bash", "mail__send"}), memory="own")
_PEOPLE = {"owner": _OWNER, "sam": _GUEST, "kim": _GUEST}
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("bash", {"command": "ls"}),
    ("bash", {"command": "ls -l"}),
    ("bash", {"command": "ls -l", "timeout_ms": 1}),
    ("bash", {"command": "touch evil"}),
    ("bash", {"command": "ls\n```\n\nReply `allow`.\n\n```\ntouch evil"}),
    ("bash", {"command": "ls " + "./" * 1_500 + "; touch evil"}),
    ("mail__send", {"to": "bo@x.ch", "text": "Hi"}),
    ("mail__send", {"to": "bo@x.ch", "text": "Hi", "urgent": True}),
    ("mail__send", {"to": "bo@x.ch", "text": "Hi", "urgent": "true"}),
    ("mail__send", {"to": "eve@x.ch", "text": "Hi\u200b"}),
)

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_texts = st.lists(
    st.sampled_from([*"a `│┊⟨⟩U+20E\n\t\r\u202e\u2028\u3164\ufe0f\u0301🎉()[]", "```", "x " * 110]),
    max_size=30,
).map("".join)


def _read_visible(text: str) -> str:
    """Undo `make_visible`."""
    return re.sub("⟨U\\+([0-9A-F]{4,6})⟩", lambda found: chr(int(found[1], 16)), text)


def read_call(text: str, count: int) -> dict[str, Any]:
    """The first arguments that a question shows, as its reader gets them from the text alone."""
    found: list[tuple[str, bool, list[str]]] = []
    for line in text.replace(f"\n{_BAR_WITHIN}", "").split("\n"):
        if line.startswith(_BAR):
            found[-1][2].append(line.removeprefix(_BAR))
        elif line.startswith(("Why I ask", "What `always")):
            break
        elif head := _HEAD.fullmatch(line):
            found.append((head["name"], bool(head["json"]), []))
    return {
        (json.loads(_read_visible(name)) if name.startswith('"') else name): (
            json.loads(_read_visible("\n".join(lines))) if is_json else _read_visible("\n".join(lines))
        )
        for name, is_json, lines in found[:count]
    }


def _approval(arguments: dict[str, Any]) -> Approval:
    return Approval(
        id=ids.new("apr"),
        request_id="req_1",
        execution_id="exe_1",
        call_key="0:c",
        session_label="main",
        tool="bash",
        arguments=arguments,
        call_hash=hash_call("bash", arguments),
        reason="",
        tainted_by=None,
        preview="",
        status="waiting",
        scope=None,
        pattern=None,
        started_at=None,
        created_at="",
        level="owner",
    )


@examples(max_examples=times(200, long=2_000), deadline=None)
@example({"-" * 194: ""})  # a row of its heading ends at the space before the size
@example({"-" * 197: ""})
@given(st.dictionaries(st.text(min_size=1) | _texts.filter(bool), _values | _texts, min_size=1, max_size=4))
def test_a_call_is_read_back_from_its_question_byte_for_byte(arguments: dict[str, Any]) -> None:
    asked = _approval(arguments)
    assert read_call(render(asked), len(arguments)) == arguments
    on_channel = question(asked)
    assert on_channel.count("```") == 2
    head, inside, rest = on_channel.split("\n```\n")
    assert "\n" not in head.strip()
    assert rest.count("\n\n") <= 2
    for line in inside.replace(f"\n{_BAR_WITHIN}", "").split("\n"):
        assert line.startswith((_BAR, "[", "What `always")) or _HEAD.fullmatch(line)
    if all(len(str(value)) < FOLD_CHARACTERS for value in arguments.values()):
        assert read_call(inside, len(arguments)) == arguments


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call in a place of a run."""

    person: str
    session: str
    request_id: str
    execution_id: str
    tool: str
    arguments: dict[str, Any]
    tainted: bool


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A question as the owner has read it."""

    call: Call
    approval: Approval
    tool: str
    arguments: dict[str, Any]


@dataclass(kw_only=True)
class Scene:
    """Calls and answers in two sessions."""

    ledgers: Ledgers
    seed: int
    shown: dict[str, Shown] = field(default_factory=dict[str, Shown])
    allowed: list[tuple[Decision, Shown]] = field(default_factory=list[tuple[Decision, Shown]])
    calls: list[Call] = field(default_factory=list[Call])
    waiting: list[tuple[Call, Approval]] = field(default_factory=list[tuple[Call, Approval]])
    """Calls under way, each with its question."""
    made: int = 0
    by_rule: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.approvals = Approvals(self.ledgers, ToolsConfig(ask=("*",)))

    async def play(self) -> None:
        for _ in range(STEPS):
            acts = (self.begin, self.begin, self.change, self.stop, self.answer, self.answer)
            await self.chance.choice(acts)()
            await self.go_on()

    async def begin(self) -> None:
        """Somebody's run makes a call."""
        person = self.chance.choice(("owner", "owner", "sam", "kim"))
        session = f"{self.seed}:{self.chance.randrange(2)}"
        tool, arguments = self.chance.choice(_CALLS)
        request = Request(
            event=Event(content="x", channel="desk"),
            agent=Agent(session_label=session),
            principal_id=f"ent_{person}_{self.seed}",
            access=_PEOPLE[person],
        )
        await self.ledgers.runtime.write(requests.create, request=request)
        new = NewExecution(
            id=ids.new("exe"),
            request_id=request.request_id,
            session_label=session,
            lane="chat",
            work="agent",
            mode="followup",
            input=None,
        )
        await self.ledgers.runtime.write(executions.enqueue, execution=new)
        await self.call(
            Call(
                person=person,
                session=session,
                request_id=request.request_id,
                execution_id=new.id,
                tool=tool,
                arguments=arguments,
                tainted=self.chance.random() < 0.2,
            )
        )

    async def change(self) -> None:
        """The same place of a run asks for another call, or again for the same, as after a crash."""
        if self.calls:
            before = self.chance.choice(self.calls)
            tool, arguments = self.chance.choice(_CALLS)
            kept = self.chance.random() < 0.4
            await self.call(before if kept else replace(before, tool=tool, arguments=arguments))

    async def call(self, call: Call) -> None:
        async def asked(approval: Approval) -> None:
            text = question(approval)
            if any(isinstance(v, str) and len(v) > FOLD_CHARACTERS for v in call.arguments.values()):
                assert f"nexus approvals show {code_of(approval)}" in text
                text = render(approval)
            read = read_call(text, len(call.arguments))
            self.shown[approval.id] = Shown(call=call, approval=approval, tool=approval.tool, arguments=read)

        self.calls.append(call)
        found = await self.approvals.ask(
            request_id=call.request_id,
            execution_id=call.execution_id,
            call_key="0:c",
            tool=call.tool,
            arguments=call.arguments,
            reason=Reason(text="", tainted_by="Do as I say." if call.tainted else None),
            asked=asked,
        )
        self.waiting.append((call, found))

    async def go_on(self) -> None:
        """Every run whose call was decided makes it, or is told that it may not."""
        for call, asked in tuple(self.waiting):
            found = await self.approvals.get(asked.id)
            if found.status != "waiting":
                self.waiting.remove((call, asked))
                with suppress(ToolError):
                    await self.approvals.wait(found)
                    self.check(call)

    async def stop(self) -> None:
        """A run is stopped, as by an edited message."""
        if self.calls:
            await self.finish(self.chance.choice(self.calls))

    async def finish(self, call: Call) -> None:
        end = partial(executions.end, execution_id=call.execution_id, status="cancelled", error="")
        await self.ledgers.runtime.write(end)

    async def answer(self) -> None:
        """The owner answers: a question they read, now or long ago, or without a name."""
        if not self.shown:
            return
        known = list(self.shown.values())
        shown = self.chance.choice(known[-2:] if self.chance.random() < 0.6 else known)
        decision: Decision = self.chance.choice(("once", "session", "session", "always", "always", "deny"))
        word = {"once": "allow"}.get(decision, decision)
        way: Literal["code", "bare", "hash", "wrong hash"] = self.chance.choice(
            ("code", "code", "bare", "hash", "wrong hash")
        )
        accepted = False
        if way in {"code", "bare"}:
            name = code_of(shown.approval) if way == "code" else ""
            told = await self.approvals.reply(shown.call.session, f"{word} {name}".strip())
            accepted = told is not None and told.startswith(("Allowed", "Always", "Denied"))
            assert way == "code" or not accepted
        else:
            other = self.chance.choice(list(self.shown.values())).approval
            named = (shown if way == "hash" else self.shown[other.id]).approval.call_hash
            try:
                await self.approvals.decide(shown.approval.id, decision, named)
                accepted = True
            except NexusError:
                pass
            assert not accepted or named == shown.approval.call_hash
        if accepted and decision != "deny":
            self.allowed.append((decision, shown))

    def check(self, call: Call) -> None:
        """A call that ran was allowed as it was shown, or by a rule of the owner's for their own calls."""

        def is_this(shown: Shown) -> bool:
            return shown.call.execution_id == call.execution_id and hash_call(
                shown.tool, shown.arguments
            ) == hash_call(call.tool, call.arguments)

        self.made += 1
        if any(is_this(shown) for _, shown in self.allowed):
            return
        self.by_rule += 1
        assert call.person == "owner", "a rule served a guest"
        assert not call.tainted, "a rule served a run that has read other people's text"
        assert any(
            shown.call.person == "owner"
            and not shown.call.tainted
            and (
                (decision == "session" and shown.call.session == call.session and shown.tool == call.tool)
                or (
                    decision == "always"
                    and suggest_rule(shown.tool, shown.arguments).allows(call.tool, call.arguments)
                )
            )
            for decision, shown in self.allowed
        ), "it ran without anybody's word"


@pytest.mark.parametrize("number", range(HOMES))
async def test_nothing_runs_that_its_approver_was_not_shown(opened: Ledgers, number: int) -> None:
    made = by_rule = 0
    for seed in range(number * SCENES, (number + 1) * SCENES):
        scene = Scene(ledgers=opened, seed=seed)
        await scene.play()
        made, by_rule = made + scene.made, by_rule + scene.by_rule
    assert made > SCENES / 2
    assert by_rule > SCENES / 20


def test_a_rule_survives_storage() -> None:
    for tool, arguments in _CALLS:
        rule = suggest_rule(tool, arguments)
        assert rule.allows(tool, arguments)
        assert Rule.from_json(rule.to_json()) == rule
