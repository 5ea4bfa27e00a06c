"""The turns of a conversation that the memory has not learned from yet: when they are due, what was said."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from nexus import clock
from nexus.automations.context import Occasion
from nexus.engine import Schedule, WorkContext
from nexus.errors import AutomationError
from nexus.ledgers import events, sql
from nexus.ledgers.agents import tool_calls, turns
from nexus.ledgers.identity import senders
from nexus.ledgers.memory import processing
from nexus.ledgers.runtime import invocations, requests
from nexus.roles.memory_writer import DEFAULTS
from nexus.runs import Response, Result

if TYPE_CHECKING:
    import apsw

    from nexus.automations.runner import Runner
    from nexus.ledgers import Ledgers
    from nexus.ledgers.agents.tool_calls import ToolOutput
    from nexus.ledgers.events import Event
    from nexus.ledgers.identity.senders import Sender
    from nexus.roles.services import Services


Mode = Literal["every_turn", "every_n_turns", "before_compaction"]
PROCESSOR = "memory-writer"
_MOST_RESULTS = 200
# The older part of a longer conversation is summarised.
_MOST_TURNS = 200
# Commands that read the memory: what they print is remembered, not news.
_READS_MEMORY = ("memory-search", "memory-models", "cortex-search", "sqlite3")
# The share of a conversation's budget from which its older part is about to be summarised.
_NEARLY_FULL = 0.75
# Turns that a run failed on are due again with the next one; older ones are dropped.
_AT_ONCE = 5
_ALL = 200
MISSED_TURNS: Final = "memory.missed_turns"
_HOOK_POINT: Final = "after:runAgent"
_SCHEDULE: Final = Schedule(
    name=MISSED_TURNS, cron="35 * * * *", work=MISSED_TURNS, payload={}, lane="automations", missed="skip"
)
# What is older is let go, as is what failed once an hour for a day.
_LOOKS_BACK: Final = timedelta(days=7)
_MOST_ATTEMPTS: Final = 24


@dataclass(frozen=True, kw_only=True)
class Frequency:
    """When turns are due."""

    mode: Mode
    n: int
    roles: frozenset[str]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Frequency":
        """The settings of the automation, checked."""
        given = {**DEFAULTS, **config}
        mode, n, roles = given["frequency"], given["n"], given["roles"]
        if mode not in get_args(Mode):
            raise AutomationError(
                f"`frequency` is {mode!r}", hint=f"Set it to one of {', '.join(get_args(Mode))}."
            )
        if type(n) is not int or n < 1:
            raise AutomationError(f"`n` is {n!r}", hint="Set it to a whole number of turns.")
        if not isinstance(roles, list):
            raise AutomationError(f"`roles` is {roles!r}", hint='Set it to a list such as ["manager"].')
        return cls(mode=mode, n=n, roles=frozenset(map(str, cast("list[object]", roles))))

    @property
    def most_turns(self) -> int:
        """The most turns that one run works on."""
        return {"every_turn": _AT_ONCE, "every_n_turns": self.n + _AT_ONCE, "before_compaction": _ALL}[
            self.mode
        ]

    def explain_wait(self, due: int, *, used_tokens: int, budget_tokens: int) -> str | None:
        """Say why the writer waits; None if it is time to work."""
        if self.mode == "every_n_turns" and due < self.n:
            return f"{due} of {self.n} turns"
        if self.mode == "before_compaction" and used_tokens < budget_tokens * _NEARLY_FULL:
            return f"{used_tokens} of {round(budget_tokens * _NEARLY_FULL)} tokens"
        return None


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something that somebody said, with who that is by the ledgers."""

    event: "Event"
    sender: "Sender | None"

    @property
    def is_owners(self) -> bool:
        return self.sender is not None and self.sender.is_owner


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of an agent."""

    execution_id: str
    request_id: str
    root_request_ids: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    """What people said; in a worker's turn, what was said at its root. Nothing where that was forgotten."""
    is_delegated: bool = False
    """Whether an agent gave the task. What was said is then for the turn of the one that was asked."""
    answer_ids: tuple[str, ...] = ()
    """The events of what the agent said to people."""

    @property
    def is_owners(self) -> bool:
        """Whether the owner asked for it, and nobody else."""
        return bool(self.messages) and all(message.is_owners for message in self.messages)


async def load_history(ledgers: "Ledgers", session_label: str, execution_id: str) -> list[Turn]:
    """Load the turns that a fork shows: a session's up to that of a run, oldest first."""
    found = await ledgers.agents.read(
        turns.through, session_label=session_label, execution_id=execution_id, limit=_MOST_TURNS
    )
    return await _load_turns(ledgers, dict(reversed(found)))


async def load_turns_of(ledgers: "Ledgers", session_label: str, request_ids: Sequence[str]) -> list[Turn]:
    """Load the turns of a session that answered some requests, oldest first."""
    found = await ledgers.agents.read(turns.of_requests, session_label=session_label, request_ids=request_ids)
    return await _load_turns(ledgers, dict(found))


async def choose_due(ledgers: "Ledgers", found: Sequence[Turn], *, limit: int) -> list[Turn]:
    """Choose the latest of these turns that were not worked on yet, oldest first."""
    written = await find_settled(ledgers, found[-limit:])
    open_: list[Turn] = []
    for turn in reversed(found[-limit:]):
        if turn.execution_id in written:
            break
        answer_ids = await _find_answers(ledgers, turn)
        open_.append(replace(turn, answer_ids=answer_ids))
    return open_[::-1]


async def find_settled(
    ledgers: "Ledgers", found: Sequence[Turn], *, most_attempts: int | None = None
) -> set[str]:
    """Find those of these runs that need no more work.

    A request may have several turns: a worker's late result is answered in a later one.
    """

    def read(connection: "apsw.Connection") -> set[str]:
        ask = partial(processing.find_settled, connection, PROCESSOR, most_attempts=most_attempts)
        runs = ask(target_type="execution", target_ids=[turn.execution_id for turn in found])
        # In homes imported from before 0.1.0 the request is marked, for its first turn.
        first = {turn.request_id: turn.execution_id for turn in reversed(found)}
        requests_ = ask(target_type="request", target_ids=first.keys())
        return runs | {first[id_] for id_ in requests_}

    return await ledgers.memory.read(read)


async def load_memories(ledgers: "Ledgers", found: Sequence[Turn]) -> tuple[list[str], list["ToolOutput"]]:
    """Load what these turns were given from the memory, and what else tools gave to their agents."""
    roots = list(dict.fromkeys(root for turn in found for root in turn.root_request_ids))
    enriched = await ledgers.runtime.read(requests.load_enrichments, root_request_ids=roots)
    given = await ledgers.agents.read(tool_calls.results, request_ids=list(enriched), limit=_MOST_RESULTS)
    injected = [str(added["memories"]) for added in enriched.values() if added.get("memories")]
    contexts: list[dict[str, str]] = [added.get("context") or {} for added in enriched.values()]
    injected += [text for texts in contexts for text in texts.values()]
    recalled = [each.result for each in given if _is_memory(each)]
    # What workers say is made of what they were given, memories among it.
    others = [each for each in given if not _is_memory(each) and each.tool != "agent_send"]
    return [*injected, *recalled], others


async def load_answers(ledgers: "Ledgers", found: Sequence[Turn]) -> dict[str, str]:
    """Load what the agent said to people at the end of some turns, by their runs."""
    said: dict[str, str] = {}
    for turn in found:
        for event_id in turn.answer_ids or await _find_answers(ledgers, turn):
            event = await ledgers.events.read(events.get, event_id=event_id)
            if event is not None:
                said[turn.execution_id] = event.content
    return said


async def mark_turns(
    ledgers: "Ledgers",
    found: Sequence[Turn],
    status: processing.Status,
    *,
    detail: str | None,
    request_id: str,
) -> None:
    """Record what came of working on these turns and on the events in them."""
    targets = [("execution", turn.execution_id) for turn in found]
    heard = [turn for turn in found if not turn.is_delegated]
    targets += [("event", message.event.id) for turn in heard for message in turn.messages]
    targets += [("event", id_) for turn in found for id_ in turn.answer_ids]
    marks = [
        processing.Mark(target_type=kind, target_id=id_, status=status, detail=detail, request_id=request_id)
        for kind, id_ in dict.fromkeys(targets)
    ]
    await ledgers.memory.write(processing.mark, processor=PROCESSOR, marks=marks)


async def _load_turns(ledgers: "Ledgers", runs: Mapping[str, str]) -> list[Turn]:
    """Load the turns of some runs, given with the request of each."""
    answered = await ledgers.runtime.read(requests.of_runs, execution_ids=list(runs))
    event_ids = dict.fromkeys(each.event_id for each in answered if each.event_id)
    messages = await _load_messages(ledgers, list(event_ids))
    by_run = {run: [each for each in answered if each.run == run] for run in runs}
    return [
        Turn(
            execution_id=run,
            request_id=runs[run],
            root_request_ids=tuple(dict.fromkeys(each.root_request_id for each in own)),
            # A worker's result that came into a turn is no message of people.
            messages=tuple(
                messages[id_]
                for id_ in dict.fromkeys(each.event_id for each in own if not each.is_result)
                if id_ in messages
            ),
            is_delegated=any(each.is_delegated for each in own),
        )
        for run, own in by_run.items()
        if own
    ]


async def _load_messages(ledgers: "Ledgers", event_ids: Sequence[str]) -> dict[str, Message]:
    def read(connection: "apsw.Connection") -> list["Event | None"]:
        return [events.get(connection, event_id) for event_id in event_ids]

    found = [event for event in await ledgers.events.read(read) if event]

    def resolve(connection: "apsw.Connection") -> dict[str, Message]:
        return {
            event.id: Message(
                event=event,
                sender=senders.find(connection, channel=event.channel, identifier=event.sender or ""),
            )
            for event in found
        }

    return await ledgers.identity.read(resolve)


async def _find_answers(ledgers: "Ledgers", turn: Turn) -> tuple[str, ...]:
    """Find the event of a run's answer, which carries the run's id; a worker answers to an agent."""
    if turn.is_delegated or not turn.messages:
        return ()
    channel = turn.messages[0].event.channel

    def read(connection: "apsw.Connection") -> object:
        return connection.execute(sql.queries("events")["recorded"], (channel, turn.execution_id)).get

    found = await ledgers.events.read(read)
    return (str(found),) if found else ()


def _is_memory(given: "ToolOutput") -> bool:
    reads = given.tool == "bash" and any(word in given.arguments for word in _READS_MEMORY)
    return reads or given.tool in {"recall", "reflect"}


class Sweep:
    """The schedule in one home. Make it before the engine opens; `schedule` it afterwards."""

    def __init__(self, services: "Services", runner: "Runner") -> None:
        self._services = services
        self._ledgers = services.ledgers
        self._runner = runner
        services.engine.register(MISSED_TURNS, self._by_clock)

    async def schedule(self) -> None:
        """Make sure that the schedule exists; an existing one keeps its next run."""
        await self._services.engine.schedules.put(_SCHEDULE)

    async def sweep(self) -> int:
        """Let the writer go over what it missed, the oldest first; returns how many runs were asked for."""
        entry = await self._runner.find_active(PROCESSOR, _HOOK_POINT)
        if entry is None:
            return 0
        frequency = Frequency.of(entry.automation.config)
        asked = 0
        for label, missed in (await self._find_missed()).items():
            for start in range(0, len(missed), frequency.most_turns):
                last = missed[start : start + frequency.most_turns][-1]
                occasion = await self._make_occasion(label, last.execution_id, last.request_id)
                if occasion is not None:
                    # Where the circuit is open, the first one tells whether the others may follow.
                    if not await self._runner.enqueue_again(entry, _HOOK_POINT, occasion):
                        return asked
                    asked += 1
        return asked

    async def ask_about(self, runs: Iterable[tuple[str, str, str]]) -> None:
        """Let the writer go over turns that it was never asked about, by session, run and request."""
        entry = await self._runner.find_active(PROCESSOR, _HOOK_POINT)
        if entry is None:
            return
        for label, execution_id, request_id in runs:
            occasion = await self._make_occasion(label, execution_id, request_id)
            if occasion:
                await self._runner.enqueue_again(entry, _HOOK_POINT, occasion)

    async def _by_clock(self, context: WorkContext, payload: Any) -> dict[str, int]:
        return {"runs": await self.sweep()}

    async def _find_missed(self) -> dict[str, list[Turn]]:
        """Find the turns that were not written, by session, oldest first."""
        since = clock.timestamp(clock.now() - _LOOKS_BACK)
        missed = await self._ledgers.runtime.read(
            invocations.list_missed, automation=PROCESSOR, since=since, limit=_MOST_TURNS
        )
        by_session: dict[str, list[str]] = {}
        for request_id, label in missed:
            by_session.setdefault(label, []).append(request_id)
        unwritten: dict[str, list[Turn]] = {}
        for label, request_ids in by_session.items():
            found = await load_turns_of(self._ledgers, label, request_ids)
            over = await find_settled(self._ledgers, found, most_attempts=_MOST_ATTEMPTS)
            if turns := [turn for turn in found if turn.execution_id not in over]:
                unwritten[label] = turns
        return unwritten

    async def _make_occasion(self, label: str, execution_id: str, request_id: str) -> Occasion | None:
        request = await requests.restore(self._ledgers, request_id)
        if request is None:
            return None  # forgotten
        result = Result(execution_id=execution_id, session_label=label, response=Response(content=""))
        return Occasion(request=request, result=result)
