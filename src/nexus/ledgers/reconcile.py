"""Making ledgers agree that were caught at different moments, as replicas of a lost host are.

What was said is the truth: the events ledger comes first. The others are brought up to it, and what they
alone still know of a conversation goes back into it:

1. events: a message or an answer that only the runtime ledger has is recorded again, under its old id.
2. runtime: a run whose answer is recorded has ended; a turn or an answer without a run gets one; a run that
   was under way begins anew where the session's own record ends. Model calls that were paid for and not
   counted are counted by an estimate.
3. agents: an answer that the session lacks becomes a turn of it; turns of runs that ended, end.
4. memory and embeddings need nothing: the writer finds the turns that it has not seen, and vectors are made
   again.

Messages that nobody was asked about are left to whoever serves the home: they are handed over again.
Everything here may be repeated. It waits for the disk: with an event loop it belongs on a thread.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.config import LedgersConfig
from nexus.home import LEDGERS, PRIVATE_FILE, Home, HomeLock
from nexus.ledgers import attach, events, sql
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.connection import connect
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.forgetting import tables
from nexus.ledgers.runtime import executions, requests, usage
from nexus.ledgers.runtime.executions import NewExecution
from nexus.ledgers.runtime.usage import UsageRow
from nexus.request import Agent, Event, Request
from nexus.runs import Response, Result

LOST: Final = "The host was lost before this was recorded as answered."
"""Why a request ended whose message is handed over again."""
_STATEMENTS: Final = sql.load_statements(Path(__file__).with_suffix(".sql"))
_MARK: Final = "restored"


@dataclass(kw_only=True, slots=True)
class Reconciled:
    """What was found and repaired. A home whose ledgers agreed has none of it."""

    messages: int = 0
    """Messages that were recorded again."""
    answers: int = 0
    """Answers that were recorded again."""
    runs: int = 0
    """Runs that had ended or begun, and that the runtime ledger had missed."""
    turns: int = 0
    """Turns that were added to their session or ended."""
    calls: int = 0
    """Model calls that are now counted by an estimate."""
    unheard: tuple[tuple[str, str | None], ...] = ()
    """Messages that nobody was asked about, in order; with a run that was lost with its answer."""
    unwritten: tuple[tuple[str, str, str], ...] = ()
    """Turns that the memory writer was never asked about: the session, run and request of each."""
    dangling: tuple[str, ...] = ()
    """What still refers to something that is gone, in words."""

    def __str__(self) -> str:
        counts = {name: getattr(self, name) for name in ("messages", "answers", "runs", "turns", "calls")}
        found = [f"{count} {name}" for name, count in counts.items() if count]
        return ", ".join(found + list(self.dangling)) or "nothing to repair"


def mark(home: Home) -> None:
    """Say that the ledgers of a home come from different moments: they are reconciled when it is served."""
    home.run.mkdir(parents=True, exist_ok=True)
    (home.run / _MARK).touch(PRIVATE_FILE)


def is_due(home: Home) -> bool:
    """Whether the ledgers of a home have to be reconciled before it is served."""
    return (home.run / _MARK).exists()


def unmark(home: Home) -> None:
    """Say that all is done: the ledgers agree, and what was unheard has been handed over."""
    (home.run / _MARK).unlink(missing_ok=True)


def reconcile(home: Home) -> Reconciled:
    """Repair what can be repaired. Nobody else may have the home open."""
    found = Reconciled()
    with (
        HomeLock(home, "alone"),
        translate_errors("events", home.ledger("events")),
        closing(_open(home)) as connection,
    ):
        for repair in (_record_said, _add_runs, _end_runs, _record_answers, _add_turns, _count_calls):
            with connection:
                repair(connection, found)
        found.dangling = tuple(_find_dangling(connection))
        found.unwritten = tuple(_rows(connection, "unwritten"))
        found.unheard = tuple(_rows(connection, "unheard", lost=LOST))
    return found


def _open(home: Home) -> apsw.Connection:
    """Return one connection to all ledgers, each at the newest schema."""
    settings = LedgersConfig()
    for name in LEDGERS:
        connect(home.ledger(name), name, settings, writes=True, checkpoints=False).close()
    connection = attach.connect(home, writes=True)
    connection.wal_autocheckpoint(0)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _record_said(connection: apsw.Connection, found: Reconciled) -> None:
    for event, thread, channel, at, said in _rows(connection, "said_without_event"):
        message: dict[str, Any] = json.loads(said)
        _ensure_thread(connection, thread, channel, message["thread"])
        new = NewEvent(
            id=event,
            channel=channel,
            content=message["content"],
            thread_id=thread,
            sender=message["sender"],
            external_id=message["external_id"],
            participants=(Participant(role="sender", identifier=message["sender"]),),
            occurred_at=clock.parse(at),
        )
        events.append(connection, [new])
        found.messages += 1


def _ensure_thread(
    connection: apsw.Connection, thread_id: str | None, channel: str, name: str | None = None
) -> None:
    """See to it that a conversation is there; without its name where that is unknown or taken."""
    for external_id in (name, None) if thread_id else ():
        connection.execute(_STATEMENTS["thread"], (thread_id, channel, external_id))


def _record_answers(connection: apsw.Connection, found: Reconciled) -> None:
    for run, request, event, thread, channel, at, text in _rows(connection, "answered_without_event"):
        _ensure_thread(connection, thread, channel)
        answer = NewEvent(
            channel=channel,
            content=text,
            direction="outbound",
            thread_id=thread,
            external_id=run,
            sender="nexus",
            reply_to_event_id=event,
            request_id=request,
            occurred_at=clock.parse(at),
        )
        events.append(connection, [answer])
        found.answers += 1


def _add_runs(connection: apsw.Connection, found: Reconciled) -> None:
    """Turns of runs that the runtime ledger doesn't know: they came to an answer, or are withdrawn."""
    for turn, run, request, _, at, label, role, thread, event, channel, answer in _rows(
        connection, "turns_without_run"
    ):
        made = Request(
            request_id=request,
            event=Event(id=event, content="", thread_id=thread, channel=channel),
            agent=Agent(role=role, session_label=label),
            depth=0 if event else 1,
            created_at=at,
        )
        _add_run(connection, made, run, answer)
        if answer is None:
            executions.end(connection, run, "cancelled", error=LOST)
            _release(connection, request)
            connection.execute(_STATEMENTS["withdraw_turn"], {"id": turn, "error": LOST})
        found.runs += 1
    # Only the conversation has them: their turns follow.
    for run, request, answer, event, channel, thread, at, label in _rows(connection, "answers_without_run"):
        made = Request(
            request_id=request,
            event=Event(id=event, content="", thread_id=thread, channel=channel),
            agent=Agent(session_label=label),
            created_at=at,
        )
        _add_run(connection, made, run, answer)
        found.runs += 1


def _add_run(connection: apsw.Connection, request: Request, run: str, answer: str | None) -> None:
    """Record a run with its request; with an answer, both have ended."""
    id_, label = request.request_id, request.agent.session_label
    requests.create(connection, request)
    new = NewExecution(
        id=run,
        request_id=id_,
        session_label=label,
        lane="chat",
        work="agent",
        mode="followup",
        input=None,
    )
    executions.enqueue(connection, new)
    if answer is not None:
        executions.end(connection, run, "done", result=_result(connection, run, id_, label, answer))
        requests.end(connection, id_, "done")


def _end_runs(connection: apsw.Connection, found: Reconciled) -> None:
    for run, request, label, answer in _rows(connection, "runs_with_answer"):
        executions.end(connection, run, "done", result=_result(connection, run, request, label, answer))
        found.runs += 1
    # What such a run has said and done is in its session: it looks there, and goes on.
    for (run,) in _rows(connection, "unfinished_runs"):
        executions.drop_steps(connection, run)
    for (request,) in _rows(connection, "requests_without_run"):
        _release(connection, request)


def _release(connection: apsw.Connection, request_id: str) -> None:
    """End a request that came to nothing; its message is free for another."""
    requests.end(connection, request_id, "cancelled", error=LOST)
    connection.execute(_STATEMENTS["release_message"], (request_id,))


def _add_turns(connection: apsw.Connection, found: Reconciled) -> None:
    for run, label, request, role, thread, event, said, answer in _rows(connection, "done_without_turn"):
        turn = turns.begin(
            connection, session_label=label, execution_id=run, request_id=request, role=role, thread_id=thread
        )
        known = messages.of_turn(connection, turn)
        if not known:
            first = NewMessage(role="user", content=said or "", parts_json=None, event_id=event)
            messages.append(connection, turn, 0, [first])
        if not known or known[-1].role != "assistant" or known[-1].content != answer:
            last = NewMessage(role="assistant", content=answer, parts_json=None)
            messages.append(connection, turn, max(1, len(known)), [last])
        turns.end(connection, turn.id, "done")
        found.turns += 1
    for turn_id, status, error in _rows(connection, "open_turns_of_ended"):
        ended = status if status in ("done", "cancelled") else "failed"
        turns.end(connection, turn_id, ended, error=error)
        found.turns += 1


def _count_calls(connection: apsw.Connection, found: Reconciled) -> None:
    for run, request, root, role, model, tokens, count in _rows(connection, "unbilled"):
        provider, _, name = model.partition("/")
        for _ in range(count):
            row = UsageRow(
                id=ids.new("use"),
                request_id=request,
                root_request_id=root,
                execution_id=run,
                role=role,
                provider=provider,
                model=name or model,
                output_tokens=tokens // count,
                estimated=True,
            )
            usage.record(connection, row)
            found.calls += 1


def _result(connection: apsw.Connection, run: str, request: str, label: str, text: str) -> dict[str, Any]:
    return Result(
        execution_id=run,
        request_id=request,
        session_label=label,
        response=Response(content=text),
        usage=usage.of_execution(connection, run),
    ).to_json()


def _find_dangling(connection: apsw.Connection) -> Iterator[str]:
    """References from one ledger into another that lead nowhere, by column."""
    for table in tables.TABLES:
        for ref in table.refs:
            target = tables.TOUCHED.get(ref.table)
            if target is None or target.ledger == table.ledger:
                continue
            statement = f"""SELECT count(*) FROM {table.path} AS source
                WHERE source.{ref.column} IS NOT NULL AND {ref.when} AND NOT EXISTS
                (SELECT 1 FROM {target.path} AS target WHERE target.{target.key[0]} = source.{ref.column})"""  # noqa: S608 - names are constants of the program
            if count := cast("int", connection.execute(statement).get):
                yield f"{count} of {table.name}.{ref.column}"


def _rows(connection: apsw.Connection, name: str, **values: Any) -> list[Any]:
    """Return all rows: what is repaired next would change what is read."""
    return connection.execute(_STATEMENTS[name], values or None).fetchall()
