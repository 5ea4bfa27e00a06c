"""Owner and guests in one session, in whatever order they speak: nobody's run holds what is not theirs.

Each scene is a random interleaving of messages in every queue mode, tool calls, memories, workers, reports,
summaries, failures and interrupts, from several people in two threads, on real ledgers. What is private to
somebody carries a mark with their name, and summaries repeat everything that their run was shown.
NEXUS_LONG=1 plays two thousand scenes.
"""

import asyncio
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from long_form import times
from nexus import ids
from nexus.broker.tools import Worker
from nexus.broker.tools.agent_send import result_text
from nexus.context import AssembledContext, assemble_context, history
from nexus.context.wrapping import wrapped
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents.messages import NewMessage, Role
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.events import NewEvent
from nexus.ledgers.runtime import dispatches, executions, requests
from nexus.ledgers.runtime.dispatches import NewDispatch
from nexus.ledgers.runtime.executions import Execution, Mode, NewExecution
from nexus.request import Access, Agent, Event, Grant, Request

SCENES = times(100, long=2_000)
AT_ONCE = 100
STEPS = 18
MODES: tuple[Mode, ...] = ("followup", "collect", "steer", "interrupt")
PRIVATE = re.compile(r"\b(tool|mem|task|report|error|summary)-([a-z]+)-\d+")
SAID = re.compile(r"\b(?:word|answer)-([a-z]+)-\d+")
QUOTED = re.compile(r"<message [^>]*>.*?</message>", re.DOTALL)
DESK = "/private/desk-of-the-owner"

_GUEST = Access(level="known", tools=frozenset({"agent_send"}), memory="own", sessions=("*",))
_OWNER = Access(
    level="owner", tools=None, directories=(Grant(path=DESK, writable=True),), memory="all", sessions=("*",)
)


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody with their rights, in a thread."""

    name: str
    principal_id: str
    access: Access
    thread: str = "group"


PEOPLE = (
    Person(name="owner", principal_id="ent_owner", access=_OWNER),
    Person(name="afar", principal_id="ent_owner", access=_OWNER, thread="elsewhere"),
    Person(name="sam", principal_id="ent_sam", access=_GUEST),
    # Another guest with the same grants, one whose grants were taken away, one who writes from elsewhere.
    Person(name="kim", principal_id="ent_kim", access=_GUEST),
    Person(name="less", principal_id="ent_sam", access=Access(level="known", memory="none", sessions=("*",))),
    Person(name="far", principal_id="ent_far", access=_GUEST, thread="elsewhere"),
)
BY_NAME = {person.name: person for person in PEOPLE}


def same_rights(one: str, other: str) -> bool:
    first, second = BY_NAME[one], BY_NAME[other]
    return (first.principal_id, first.access) == (second.principal_id, second.access)


@dataclass(kw_only=True)
class Run:
    """A run under way."""

    person: Person
    request: Request
    execution: Execution
    turn: OpenTurn
    offset: int = 1
    shown: list[str] = field(default_factory=list[str])
    steered: int = 0


@dataclass(kw_only=True)
class Scene:
    """One session, driven as the broker drives it."""

    ledgers: Ledgers
    seed: int
    chance: random.Random = field(init=False)
    label: str = field(init=False)
    threads: dict[str, str] = field(default_factory=dict[str, str])
    people: dict[str, Person] = field(default_factory=dict[str, Person])
    """Who stands behind each request."""
    run: Run | None = None
    told: list[tuple[Person, str]] = field(default_factory=list[tuple[Person, str]])
    """What was said aloud in turns that ended well, by whom."""
    summed_up: set[str] = field(default_factory=set[str])
    count: int = 0
    runs: int = 0
    joined: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.label = f"group:{self.seed}"

    def mark(self, kind: str, person: Person) -> str:
        self.count += 1
        return f"{kind}-{person.name}-{self.count}"

    async def play(self) -> None:
        for name in ("group", "elsewhere"):
            self.threads[name] = await self.ledgers.events.write(
                events.ensure_thread, channel=name, external_id=self.label
            )
        for _ in range(STEPS):
            await self.step()
        while self.run or await self.begin():
            await self.end("done")

    async def step(self) -> None:
        if self.run is None:
            await (self.say() if self.chance.random() < 0.6 else self.begin())
            return
        acts = (self.say, self.say, self.call, self.call, self.dispatch, self.report, self.finish)
        await self.chance.choice(acts)()

    async def say(self) -> None:
        """Somebody writes into the session."""
        person, mode = self.chance.choice(PEOPLE), self.chance.choice(MODES)
        word = self.mark("word", person)
        new = NewEvent(
            channel=person.thread,
            content=word,
            thread_id=self.threads[person.thread],
            sender=person.name,
        )
        (event_id,) = await self.ledgers.events.write(events.append, events=[new])
        event = Event(
            content=word,
            id=event_id,
            thread_id=self.threads[person.thread],
            channel=person.thread,
            sender_id=person.name,
        )
        request = Request(
            event=event,
            agent=Agent(session_label=self.label),
            principal_id=person.principal_id,
            access=person.access,
        )
        await self.ledgers.runtime.write(requests.create, request=request)
        self.people[request.request_id] = person
        context = await self.context(request, word)
        context.prepend(wrapped("memory_context", self.mark("mem", person)))
        await self.enqueue(request, context, mode)

    async def enqueue(self, request: Request, context: AssembledContext, mode: Mode) -> None:
        new = NewExecution(
            id=ids.new("exe"),
            request_id=request.request_id,
            session_label=self.label,
            lane="chat",
            work="agent",
            mode=mode,
            input={"context": context.to_json()},
        )
        await self.ledgers.runtime.write(executions.enqueue, execution=new)
        if mode == "interrupt":
            await self.interrupt(new.id, self.people[request.request_id])

    async def interrupt(self, execution_id: str, person: Person) -> None:
        stopped = await self.ledgers.runtime.read(executions.list_interrupted_by, execution_id=execution_id)
        for id_ in stopped:
            execution = await self.execution(id_)
            other = self.people[execution.request_id]
            assert person.access.level == "owner" or same_rights(person.name, other.name)
            if self.run is not None and self.run.execution.id == id_:
                await self.end("cancelled")
            await self.ledgers.runtime.write(executions.end, execution_id=id_, status="cancelled")

    async def begin(self) -> bool:
        """Start what waits first."""
        for id_ in await self.ledgers.runtime.read(executions.list_unfinished_in, session_label=self.label):
            execution = await self.ledgers.runtime.write(executions.begin, execution_id=id_)
            assert execution is not None
            if execution.taken_by is not None:
                await self.ledgers.runtime.write(executions.end, execution_id=id_, status="done")
                continue
            await self.start(execution)
            return True
        return False

    async def start(self, execution: Execution) -> None:
        person, ledgers = self.people[execution.request_id], self.ledgers
        request = await requests.restore(ledgers, execution.request_id)
        assert request is not None
        inputs = [execution.input]
        if execution.mode == "collect":
            taken = await ledgers.runtime.write(executions.take, taker=execution, mode="collect")
            inputs += [await self.input_of(each) for each in taken]
            self.joined += len(taken)
        if self.chance.random() < 0.15:
            await self.sum_up(person, request, execution)
        turn = await ledgers.agents.write(
            turns.begin,
            session_label=self.label,
            execution_id=execution.id,
            request_id=request.request_id,
            role="manager",
        )
        past = await history.load(ledgers, request, self.label, turn)
        said = [AssembledContext.from_json(each["context"]).user_turn() for each in inputs]
        self.runs += 1
        self.run = Run(person=person, request=request, execution=execution, turn=turn)
        self.check_past(person, [message.content for message in past.messages])
        self.check_given(person, said)
        self.run.shown = [*(message.content for message in past.messages), *said]
        await self.append(self.run, 0, "user", "\n\n".join(said))

    async def input_of(self, execution_id: str) -> Any:
        found = await self.ledgers.runtime.read(executions.get, execution_id=execution_id)
        assert found is not None
        return found.input

    async def sum_up(self, person: Person, request: Request, execution: Execution) -> None:
        """As compaction does, with a model that repeats all that it is shown."""
        past = await history.load(self.ledgers, request, self.label)
        if len(past.turns) < 2:
            return
        through = past.turns[-2].position
        turn = await self.ledgers.agents.write(
            turns.begin_summary,
            session_label=self.label,
            execution_id=execution.id,
            request_id=request.request_id,
            role="manager",
            summarises_through=through,
        )
        shown = [message.content for message in past.messages]
        self.check_past(person, shown)
        said = [self.mark("summary", person), *shown]
        new = [_message("user", "Sum up"), _message("assistant", "\n".join(said))]
        await self.ledgers.agents.write(messages.append, turn=turn, offset=0, messages=new)
        await self.ledgers.agents.write(turns.end, turn_id=turn.id, status="done")
        self.summed_up |= {other.name for other in PEOPLE if same_rights(other.name, person.name)}

    async def call(self) -> None:
        """A tool gives something, and what was said meanwhile is taken in."""
        run = self.run
        assert run is not None
        await self.append(run, run.offset, "assistant", "Let me look.")
        await self.append(run, run.offset + 1, "tool", self.mark("tool", run.person))
        run.offset += 2
        taken = (await self.ledgers.runtime.write(executions.take, taker=run.execution, mode="steer"))[
            run.steered :
        ]
        run.steered += len(taken)
        self.joined += len(taken)
        for each in taken:
            text = AssembledContext.from_json((await self.input_of(each))["context"]).user_turn()
            self.check_given(run.person, [text])
            run.shown.append(text)
            await self.append(run, run.offset, "user", text)
            run.offset += 1

    async def dispatch(self) -> None:
        run = self.run
        assert run is not None
        task = self.mark("task", run.person)
        child = run.request.child(content=task, agent=Agent(role="worker", session_label=f"worker:{task}"))
        new = NewDispatch(
            id=ids.new("dsp"),
            parent_request_id=run.request.request_id,
            root_request_id=run.request.root_request_id,
            parent_session_label=self.label,
            parent_execution_id=run.execution.id,
            call_id=task,
            worker_request_id=child.request_id,
            worker_session_label=child.agent.session_label,
            execution_id=ids.new("exe"),
            task=task,
        )
        await self.ledgers.runtime.write(requests.create, request=child)
        await self.ledgers.runtime.write(dispatches.create, dispatch=new)
        own = await self.ledgers.runtime.read(
            dispatches.of_session, session_label=self.label, request_id=run.request.request_id
        )
        assert own
        self.check_given(run.person, [each.task for each in own])

    async def report(self) -> None:
        """A worker ends, and its result goes to the session that dispatched it."""
        open_ = "SELECT id FROM dispatches WHERE parent_session_label = ? AND status = 'running'"
        found = await self.ledgers.runtime.read(lambda c: c.execute(open_, (self.label,)).fetchall())
        if not found:
            return
        id_ = str(self.chance.choice(found)[0])
        one = await self.ledgers.runtime.read(dispatches.get, dispatch_id=id_)
        assert one is not None
        await self.ledgers.runtime.write(dispatches.end, dispatch_id=id_, status="done")
        request = await requests.restore(self.ledgers, one.parent_request_id)
        assert request is not None
        result = self.mark("report", self.people[request.request_id])
        text = result_text(Worker(id=id_, task=one.task, status="done", result=result))
        await self.enqueue(request, await self.context(request, text), "steer")

    async def finish(self) -> None:
        await self.end("failed" if self.chance.random() < 0.2 else "done")

    async def end(self, status: Any) -> None:
        run, self.run = self.run, None
        if run is None:
            return
        error = None if status == "done" else self.mark("error", run.person)
        if status == "done":
            answer = self.mark("answer", run.person)
            await self.append(run, run.offset, "assistant", answer)
            await self.deliver(run, answer)
        await self.ledgers.agents.write(turns.end, turn_id=run.turn.id, status=status, error=error)
        await self.ledgers.runtime.write(
            executions.end, execution_id=run.execution.id, status=status, error=error
        )

    async def deliver(self, run: Run, answer: str) -> None:
        new = NewEvent(
            channel=run.person.thread,
            content=answer,
            direction="outbound",
            thread_id=self.threads[run.person.thread],
            external_id=run.execution.id,
            sender="nexus",
        )
        await self.ledgers.events.write(events.append, events=[new])
        self.told.append((run.person, answer))

    # What must hold

    def check_given(self, person: Person, given: Iterable[str]) -> None:
        """What a run is to do, and what it may know of workers, comes from its own principal alone."""
        for text in given:
            named = {*(name for _, name in PRIVATE.findall(text)), *SAID.findall(text)}
            assert all(same_rights(person.name, name) for name in named), f"{self.seed}: {text}"

    def check_past(self, person: Person, past: list[str]) -> None:
        text = "\n".join(past)
        if person.access.level == "owner":
            self.check_owner(text)
            return
        assert DESK not in text, f"{self.seed}: {person.name} sees {text}"
        for kind, name in PRIVATE.findall(text):
            assert same_rights(person.name, name), f"{self.seed}: {person.name} sees the {kind} of {name}"
        for name in SAID.findall(text):
            heard = BY_NAME[name].thread == person.thread or same_rights(person.name, name)
            assert heard, f"{self.seed}: {person.name} hears {name}"
        if person.name not in self.summed_up:
            aloud = {answer for by, answer in self.told if by.thread == person.thread}
            assert aloud <= set(past), f"{self.seed}: {person.name} misses {aloud - set(past)}"

    def check_owner(self, text: str) -> None:
        """Guests' words are quotations, and no summary of theirs speaks for them."""
        bare = QUOTED.sub("", text)
        for name in re.findall(r"\bword-([a-z]+)-\d+", bare) + re.findall(r"\bsummary-([a-z]+)-\d+", text):
            assert same_rights("owner", name), f"{self.seed}: unquoted words of {name}"

    # Parts

    async def context(self, request: Request, task: str) -> AssembledContext:
        return await assemble_context(
            self.ledgers.home, request, session_label=self.label, task=task, tools=()
        )

    async def execution(self, id_: str) -> Execution:
        found = await self.ledgers.runtime.read(executions.get, execution_id=id_)
        assert found is not None
        return found

    async def append(self, run: Run, offset: int, role: Role, text: str) -> None:
        new = [_message(role, text)]
        await self.ledgers.agents.write(messages.append, turn=run.turn, offset=offset, messages=new)


def _message(role: Role, text: str) -> NewMessage:
    return NewMessage(role=role, content=text, parts_json=None)


async def test_in_no_order_does_anything_private_reach_somebody_elses_run(opened: Ledgers) -> None:
    played: list[Scene] = []
    for first in range(0, SCENES, AT_ONCE):
        scenes = [Scene(ledgers=opened, seed=seed) for seed in range(first, first + AT_ONCE)]
        await asyncio.gather(*(scene.play() for scene in scenes))
        played += scenes
    assert len(played) == SCENES
    # They do meet: runs follow each other in a session, and messages of one person do join.
    assert sum(scene.runs for scene in played) > 3 * SCENES
    assert sum(scene.joined for scene in played) > SCENES / 20
