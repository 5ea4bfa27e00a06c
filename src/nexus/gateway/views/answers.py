"""Runs as a chat shows them: what was asked, what was answered so far, and who works on it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import apsw

from nexus.attachments import Attachment
from nexus.errors import MissingError
from nexus.gateway.views import requests, sessions
from nexus.gateway.views.requests import Offer
from nexus.gateway.views.sessions import Message
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.agents import sessions as stored
from nexus.ledgers.events import ChangedAnswer, Unasked
from nexus.ledgers.memory import follow_ups
from nexus.ledgers.memory.follow_ups import FollowUp
from nexus.ledgers.runtime import dispatches, usage
from nexus.ledgers.runtime.dispatches import Dispatch
from nexus.runs import Totals

MOST_CHARACTERS = 20_000
"""As much of an answer is shown as is rendered while it is written."""
_DISPATCHES = "agent_send"
_FILES = re.compile(r"\s*(?:\[Attached image: |<attachment )")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a person wrote, with the files that came along."""

    run_id: str | None
    text: str
    at: str
    event_id: str | None = None
    files: tuple[Attachment, ...] = ()
    message_id: str | None = None
    """Where the rest of a long text is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LastMessage:
    """What a person last said in a session, without what its files say."""

    text: str
    execution_id: str
    request_id: str | None
    files: tuple[str, ...]
    """The names of its files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """A worker that a call dispatched, as it stands."""

    id: str
    task: str
    status: str
    session_label: str
    request_id: str
    calls: int
    doing: str | None
    """The tool that it called last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The answer of one run, as far as it is recorded."""

    run_id: str
    request_id: str | None
    status: str
    error: str | None
    at: str
    messages: tuple[Message, ...]
    workers: dict[str, Worker]
    """By the key of the call that dispatched each."""
    usage: Totals
    offered: tuple[Offer, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
    """What the message and the answer promise."""
    change: ChangedAnswer | None = None
    """How an automation changed it, if one did: then the messages hold what was delivered."""
    is_experiment: bool = False
    """Whether it is what would have been said with other memories, and not part of the conversation."""

    @property
    def model(self) -> str | None:
        return next((each.model for each in reversed(self.messages) if each.model), None)

    @property
    def text_id(self) -> str | None:
        """The message whose text is copied: the last with one."""
        if self.change is not None:
            return None  # it holds the original
        return next((each.id for each in reversed(self.messages) if each.content), None)


Line = Question | Answer | Unasked


async def load_lines(ledgers: Ledgers, said: Sequence[Message], running: Iterable[str]) -> list[Line]:
    """Load the messages of a session as questions and answers, without those of runs under way."""
    given = await requests.load_injected(ledgers, [each.request_id for each in said])
    runs = [each.execution_id for each in said if each.execution_id]
    spent = await ledgers.runtime.read(usage.of_executions, execution_ids=sorted(set(runs)))
    came = await ledgers.events.read(
        _load_files, event_ids={each.event_id for each in said if each.role == "user"}
    )
    changes = await _load_changes(ledgers, said)
    promised = await _load_follow_ups(ledgers, said)
    found: list[Line] = []
    left_out = set(running)
    for _, group in groupby(said, key=lambda each: each.turn_id):
        turn = list(group)
        if turn[0].turn_kind == "summary":
            continue
        found += [
            _describe_question(each, came.get(each.event_id, ())) for each in turn if each.role == "user"
        ]
        if turn[0].execution_id not in left_out and turn[0].turn_status != "running":
            found.append(await _load_answer(ledgers, turn, spent, given, changes, promised))
    return found


async def load_answer(
    ledgers: Ledgers, execution_id: str, status: str, error: str | None, *, is_held: bool = False
) -> Answer:
    """Load the answer of one run so far. One that is held back has no texts until it is delivered."""
    said = await sessions.load_run(ledgers, execution_id, MOST_CHARACTERS)
    if is_held:
        said = tuple(replace(each, content="", characters=0) for each in said)
    spent = await ledgers.runtime.read(usage.of_executions, execution_ids=[execution_id])
    if not said:
        return Answer(
            run_id=execution_id,
            request_id=None,
            status=status,
            error=error,
            at="",
            messages=(),
            workers={},
            usage=spent.get(execution_id, Totals()),
        )
    given = await requests.load_injected(ledgers, [said[0].request_id])
    changes, promised = await _load_changes(ledgers, said), await _load_follow_ups(ledgers, said)
    return await _load_answer(ledgers, said, spent, given, changes, promised)


async def _load_changes(ledgers: Ledgers, said: Sequence[Message]) -> dict[str, ChangedAnswer]:
    """Load the answers that automations changed, by the runs that wrote them."""
    wanted = {each.request_id for each in said if each.request_id}
    found = await ledgers.events.read(events.changed_answers, request_ids=wanted)
    return {each.key: each for each in found}


async def _load_follow_ups(ledgers: Ledgers, said: Sequence[Message]) -> dict[str, list[FollowUp]]:
    """Load what was promised, by request."""
    wanted = {each.request_id for each in said if each.request_id}
    found: dict[str, list[FollowUp]] = {}
    for each in await ledgers.memory.read(follow_ups.of_requests, wanted):
        found.setdefault(each.source_request_id or "", []).append(each)
    return found


async def load_worker(ledgers: Ledgers, dispatch_id: str) -> Worker:
    """Load a worker as it stands now."""
    found = await ledgers.runtime.read(dispatches.get, dispatch_id=dispatch_id)
    if found is None:
        raise MissingError(f"Unknown worker {dispatch_id}")
    return (await _load_workers(ledgers, [found]))[found.call_id]


async def load_last_message(ledgers: Ledgers, label: str) -> LastMessage | None:
    """Load what a person last said in a session, wherever that was."""
    session = await ledgers.agents.read(stored.get, label=label)
    query = sql.queries("agents")["asked_last"]
    row = session and await ledgers.agents.read(sql.row, query, {"session_id": session.id})
    if not row:
        return None
    event = await ledgers.events.read(events.get, event_id=row[0])
    if event is None:
        return None
    files = await load_files(ledgers, event.id)
    return LastMessage(
        text=strip_files(event.content, files),
        execution_id=row[1],
        request_id=row[2],
        files=tuple(each.name for each in files),
    )


async def load_files(ledgers: Ledgers, event_id: str) -> tuple[Attachment, ...]:
    """Load the files that came with a message."""
    return await ledgers.events.read(events.attachments_of, event_id=event_id)


def strip_files(text: str, files: Sequence[Attachment]) -> str:
    """Strip what somebody wrote of what their files say."""
    return _FILES.split(text, maxsplit=1)[0] if files else text


def _load_files(
    connection: apsw.Connection, event_ids: Iterable[str | None]
) -> dict[str | None, tuple[Attachment, ...]]:
    return {id_: events.attachments_of(connection, id_) for id_ in event_ids if id_}


def _describe_question(message: Message, came: tuple[Attachment, ...]) -> Question:
    return Question(
        run_id=message.execution_id,
        text=strip_files(message.said or message.content, came),
        at=message.created_at,
        event_id=message.event_id,
        files=came,
        message_id=message.id if message.is_cut else None,
    )


async def _load_answer(
    ledgers: Ledgers,
    turn: Sequence[Message],
    spent: dict[str, Totals],
    given: dict[str, tuple[Offer, ...]],
    changes: dict[str, ChangedAnswer],
    promised: dict[str, list[FollowUp]],
) -> Answer:
    first, run_id = turn[0], turn[0].execution_id or turn[0].turn_id
    change = changes.get(run_id)
    if change is not None:
        *before, last = turn
        text = change.delivered[:MOST_CHARACTERS]
        shown = replace(last, content=text, characters=len(text))
        turn = [*(replace(each, content="", characters=0) for each in before), shown]
    said = tuple(each for each in turn if each.role == "assistant" and (each.content or each.calls))
    dispatched: list[Dispatch] = []
    if any(call.tool_name == _DISPATCHES for each in said for call in each.calls):
        dispatched = await ledgers.runtime.read(dispatches.of_execution, execution_id=run_id)
    return Answer(
        run_id=run_id,
        request_id=first.request_id,
        status=first.turn_status,
        error=first.turn_error,
        at=turn[-1].created_at,
        messages=said,
        workers=await _load_workers(ledgers, dispatched),
        usage=spent.get(run_id, Totals()),
        offered=given.get(first.request_id or "", ()),
        follow_ups=tuple(promised.get(first.request_id or "", ())),
        change=change,
    )


async def _load_workers(ledgers: Ledgers, found: Sequence[Dispatch]) -> dict[str, Worker]:
    query = sql.queries("agents")["last_call_of_run"]

    def read(connection: apsw.Connection) -> list[tuple[int, str | None]]:
        rows = [sql.rows(connection, query, (each.execution_id,))[0] for each in found]
        return [(row[0], row[2]) for row in rows]

    done = await ledgers.agents.read(read) if found else []
    return {
        each.call_id: Worker(
            id=each.id,
            task=each.task,
            status=each.status,
            session_label=each.worker_session_label,
            request_id=each.worker_request_id,
            calls=calls,
            doing=tool,
        )
        for each, (calls, tool) in zip(found, done, strict=True)
    }
