"""The past of a session, as far as the principal of a run may know it.

Several people may use one session. A run is shown the whole turns of its own principal, and of other
people's only what was said aloud in a thread that it may hear: no tool results, no memories, no summaries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import apsw

from nexus.context.wrapping import quoted
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import history
from nexus.ledgers.agents.history import History, Turn
from nexus.ledgers.agents.messages import Role, StoredMessage
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.events import Event
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.executions import Said
from nexus.ledgers.runtime.requests import StoredRequest
from nexus.request import Request

_UNASKED = "(A background task reported back.)"
_UNANSWERED = "(This turn was not answered here.)"


async def load(
    ledgers: Ledgers, request: Request, session_label: str, before: OpenTurn | None = None
) -> History:
    """All of a session so far, or what one of its turns builds on, which is the same at any time."""

    def read(connection: apsw.Connection, made_by: Sequence[str] | None) -> tuple[list[str], History | None]:
        """Who summed it up, and the history unless it must be asked first whose summaries count."""
        found = history.list_summary_requests(connection, session_label) if made_by is None else []
        if found:
            return found, None
        past = history.load(
            connection, session_label, before=before, made_by=made_by or (), ledger=ledgers.agents
        )
        return [], past

    summed_up, past = await ledgers.agents.read(read, made_by=None)
    if past is None:
        # A summary that others made tells too much, or not enough.
        authors = await ledgers.runtime.read(requests.parties, request_ids=summed_up)
        counted = [id_ for id_, author in authors.items() if request.has_rights_of(author)]
        _, past = await ledgers.agents.read(read, made_by=counted)
    assert past is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return await _known_to(ledgers, request, past)


async def _known_to(ledgers: Ledgers, request: Request, past: History) -> History:
    if request.access.level == "owner" or not past.turns:
        return past
    asked = {turn.request_id for turn in past.turns if turn.request_id}
    authors = await ledgers.runtime.read(requests.parties, request_ids=sorted(asked))
    own = {id_ for id_, author in authors.items() if request.may_know_all_of(author)}
    others = [turn for turn in past.turns if turn.request_id not in own]
    said = await _load_exchanges(ledgers, request, others, authors)
    shown = [turn if turn.request_id in own else _aloud(turn, said.get(turn.position)) for turn in past.turns]
    return replace(past, turns=tuple(turn for turn in shown if turn.messages))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Exchange:
    """What of a turn was said aloud."""

    asked: Sequence[str]
    answer: str | None


async def _load_exchanges(
    ledgers: Ledgers, request: Request, turns: Iterable[Turn], authors: Mapping[str, StoredRequest]
) -> dict[int, _Exchange]:
    """What was said in turns of others, by position, as far as the request may hear it."""
    runs = {turn.execution_id: turn for turn in turns if turn.execution_id and turn.request_id in authors}
    told = await ledgers.runtime.read(executions.load_said_to, execution_ids=list(runs))

    def filter_heard(event: Event | None) -> Event | None:
        known = event is not None and request.access.hears(request.event.thread_id, event.thread_id)
        return event if known else None

    def load_questions(connection: apsw.Connection, said: Sequence[Said]) -> list[str]:
        found = [(filter_heard(events.get(connection, each.event_id)), each.trust) for each in said]
        return [quoted(each.content, sender=each.sender, trust=trust) for each, trust in found if each]

    def answer(connection: apsw.Connection, run: str, author: StoredRequest) -> str | None:
        found = filter_heard(
            events.find_by_external_id(connection, channel=author.channel or "", external_id=run)
        )
        return found.content if found is not None and found.direction == "outbound" else None

    def read(connection: apsw.Connection) -> dict[int, _Exchange]:
        return {
            turn.position: _Exchange(
                asked=load_questions(connection, told.get(run, [])),
                answer=answer(connection, run, authors[turn.request_id or ""]),
            )
            for run, turn in runs.items()
        }

    return await ledgers.events.read(read)


def _aloud(turn: Turn, said: _Exchange | None) -> Turn:
    """A turn with nothing in it but what was said."""
    if said is None or not (said.asked or said.answer):
        return replace(turn, messages=())
    last = turn.messages[-1]
    asked = _message(last, "user", "\n\n".join(said.asked) or _UNASKED)
    return replace(turn, messages=(asked, _message(last, "assistant", said.answer or _UNANSWERED)))


def _message(like: StoredMessage, role: Role, content: str) -> StoredMessage:
    return replace(like, id="", role=role, content=content, parts_json=None, model=None, event_id=None)
