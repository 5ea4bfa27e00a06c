"""The history of a session, as a model is to see it: forks and summaries resolved, nothing left dangling.

Turns that have ended are read once. A process keeps those that it read last, and reads them again when the
revision of their session has changed, which the ledger's own triggers count: whoever changes or deletes
something of them, in whatever process, is noticed by the next look.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.agents import sessions
from nexus.ledgers.agents.messages import StoredMessage
from nexus.ledgers.agents.turns import OpenTurn

T = TypeVar("T")

_NOTE_CHARACTERS = 300
_EVERYTHING = 2**63 - 1
# Of all conversations of the process together: those of a few thousand turns.
_KEPT_CHARACTERS: Final = 4_000_000
# What a turn takes beside its text.
_TURN_CHARACTERS: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A turn of a history, with the messages that a model sees of it."""

    position: int
    status: str
    messages: tuple[StoredMessage, ...]
    request_id: str | None = None
    execution_id: str | None = None
    last_position: int = -1
    """Where its last message stands in the ledger, also where a model doesn't see that one."""
    _derived: dict[Callable[["Turn"], Any], Any] = field(
        default_factory=dict[Callable[["Turn"], Any], Any], init=False, repr=False, compare=False
    )

    def derive(self, make: Callable[["Turn"], T]) -> T:
        """Return what a function makes of this turn, made once and kept for as long as the turn is."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return self._derived[make]

    @property
    def characters(self) -> int:
        """How much room it takes, in characters of text."""
        return _TURN_CHARACTERS + sum(
            len(message.content) + len(message.parts_json or "") for message in self.messages
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What was said before: a summary of the older part, where there is one, then turns in full."""

    summary: tuple[StoredMessage, ...] = ()
    turns: tuple[Turn, ...] = ()
    taken_back: frozenset[str] = frozenset()
    """The events of messages that were edited and sent again: what was said instead is in the turns."""

    @property
    def blocks(self) -> list[Turn]:
        """The summary as if it were a turn, and the turns."""
        return [
            *([Turn(position=-1, status="done", messages=self.summary)] if self.summary else []),
            *self.turns,
        ]

    @property
    def messages(self) -> list[StoredMessage]:
        """All messages in order."""
        return [message for turn in self.blocks for message in turn.messages]

    def up_to(self, position: int) -> "History":
        """Return the part of it from its beginning through the turn at a position."""
        return replace(self, turns=tuple(turn for turn in self.turns if turn.position <= position))


@dataclass(frozen=True, slots=True)
class _Segment:
    """The turns of one session that have ended, up to the first that has not."""

    stamp: tuple[object, ...]
    """What they depend on, the session's revision among it."""
    turns: tuple[Turn, ...]
    through: int
    """The position of the last of them, messages or not."""
    characters: int


class Recent:
    """The segments that were read last, by the ledger and the session."""

    def __init__(self, most_characters: int = _KEPT_CHARACTERS) -> None:
        self._most_characters = most_characters
        self._segments: OrderedDict[tuple[object, str], _Segment] = OrderedDict()
        self.characters = 0
        self._lock = threading.Lock()

    def find(self, key: tuple[object, str], stamp: tuple[object, ...]) -> _Segment | None:
        with self._lock:
            found = self._segments.get(key)
            if found is None or found.stamp != stamp:
                return None
            self._segments.move_to_end(key)
            return found

    def keep(self, key: tuple[object, str], segment: _Segment) -> None:
        """Keep a segment in the place of an older one, and let go of those that nobody asked for lately."""
        with self._lock:
            before = self._segments.pop(key, None)
            self._segments[key] = segment
            self.characters += segment.characters - (before.characters if before else 0)
            while self.characters > self._most_characters:
                _, dropped = self._segments.popitem(last=False)
                self.characters -= dropped.characters

    def drop(self, ledger: object) -> None:
        """Let go of what a ledger said that is closed."""
        with self._lock:
            for key in [key for key in self._segments if key[0] is ledger]:
                self.characters -= self._segments.pop(key).characters


recent: Final = Recent()


def load(
    connection: apsw.Connection,
    session_label: str,
    *,
    before: OpenTurn | None = None,
    made_by: Sequence[str] | None = None,
    ledger: object = None,
) -> History:
    """Return all of a session so far, or what one of its turns builds on, which is the same at any time.

    Only summaries that were made for the requests `made_by` stand in for older turns; None: any. What is read
    of an open `ledger` is kept for the next time. A session that is not known has no history.
    """
    if before is not None:
        session_id, until, own = before.session_id, before.first_position, before.id
        opened_at = before.position
    elif (session := sessions.get(connection, session_label)) is not None:
        session_id, until, own, opened_at = session.id, _EVERYTHING, None, _EVERYTHING
    else:
        return History()
    queries = sql.queries("agents")
    bounds: dict[str, Any] = {"session_id": session_id, "before": until}
    rows = connection.execute(queries["replaced_turns"], {**bounds, "own": own})
    replaced = cast("list[tuple[int, int, str]]", rows.fetchall())
    ranges = json.dumps([(first, end) for first, end, _ in replaced])
    summary, after, since = (), -1, ""
    makers = None if made_by is None else json.dumps(list(made_by))
    given = {**bounds, "made_by": makers, "replaced": ranges, "opened_at": opened_at}
    rows = connection.execute(queries["summaries"], given)
    summaries = cast("list[tuple[str, int, str | None]]", rows.fetchall())
    if summaries:
        turn_id, after, _ = summaries[0]
        # A request that waited when the session was started over has its turn after that.
        since = max(request_id or "" for *_, request_id in summaries)
        said = [
            sql.make(StoredMessage, row)
            for row in connection.execute(queries["messages_of_turn"], (turn_id,))
        ]
        # The question and the answer: what a model tried with tools in between is not part of the summary.
        summary = (said[0], said[-1]) if len(said) > 1 else tuple(said)
    line = cast("list[tuple[str, int, int]]", connection.execute(queries["line"], bounds).fetchall())
    found = [
        turn
        for of, revision, end in line
        for turn in _read_segment(connection, of, (revision, after, ranges, since), end, ledger)
    ]
    # A turn that a crash held up may have its messages behind those of a later one.
    found.sort(key=lambda turn: turn.messages[0].position)
    return History(
        summary=summary,
        turns=tuple(found),
        taken_back=frozenset(event_id for *_, events in replaced for event_id in json.loads(events)),
    )


def list_summary_requests(connection: apsw.Connection, session_label: str) -> list[str]:
    """Return the requests for which a session, or one that it was forked from, was summed up."""
    session = sessions.get(connection, session_label)
    if session is None:
        return []
    rows = connection.execute(sql.queries("agents")["summarisers"], {"session_id": session.id})
    return [cast("str", row[0]) for row in rows]


def _read_segment(
    connection: apsw.Connection, session_id: str, stamp: tuple[int, int, str, str], until: int, ledger: object
) -> list[Turn]:
    """Return the turns of one session, without those of its parents, that say something before a position."""
    _, after, replaced, since = stamp
    known = recent.find((ledger, session_id), stamp) or _Segment(stamp, (), after, 0)
    new = _read_turns(connection, session_id, known.through, replaced, since)
    ended = list(takewhile(lambda turn: turn.status != "running", new))
    if ended and ledger is not None:
        kept = replace(
            known,
            turns=(*known.turns, *(turn for turn in ended if turn.messages)),
            through=ended[-1].position,
            characters=known.characters + sum(turn.characters for turn in ended),
        )
        recent.keep((ledger, session_id), kept)
    shown = [turn for turn in (*known.turns, *new) if turn.messages and turn.messages[0].position < until]
    if any(turn.last_position >= until for turn in shown):
        # It ends in the midst of a turn, whose kept form is the whole one.
        shown = [
            turn
            for turn in _read_turns(connection, session_id, after, replaced, since, until)
            if turn.messages
        ]
    return shown


def _read_turns(
    connection: apsw.Connection,
    session_id: str,
    after: int,
    replaced: str,
    since: str,
    until: int = _EVERYTHING,
) -> list[Turn]:
    given = {"session_id": session_id, "after": after, "replaced": replaced, "since": since, "until": until}
    rows = cast(
        "list[tuple[Any, ...]]", connection.execute(sql.queries("agents")["history"], given).fetchall()
    )
    return [_turn(list(group)) for _, group in groupby(rows, key=itemgetter(2))]


def _turn(rows: Sequence[tuple[Any, ...]]) -> Turn:
    status, error, position, request_id, execution_id, *_ = rows[0]
    messages = [sql.make(StoredMessage, row[5:]) for row in rows if row[5] is not None]
    last_position = messages[-1].position if messages else -1
    if status != "done":
        messages = _repair_unfinished(messages, status, _note(status, error))
    return Turn(
        position=position,
        status=status,
        messages=tuple(messages),
        request_id=request_id,
        execution_id=execution_id,
        last_position=last_position,
    )


def _repair_unfinished(messages: list[StoredMessage], status: str, note: str) -> list[StoredMessage]:
    """Cut an unfinished turn after the last message to the model, and put a note in the model's place.

    An answer at the end may call tools that never gave a result, and a provider refuses a history with
    such a call in it. Of one that was stopped, the text is kept.
    """
    said = ""
    while messages and messages[-1].role == "assistant":
        said = messages.pop().content
    if not messages:
        return []
    last = messages[-1]
    stand_in = StoredMessage(
        id="",
        turn_id=last.turn_id,
        position=last.position + 1,
        role="assistant",
        content=f"{said}\n\n{note}" if said and status == "cancelled" else note,
        parts_json=None,
        model=None,
        event_id=None,
        created_at=last.created_at,
    )
    return [*messages, stand_in]


def _note(status: str, error: str | None) -> str:
    if status == "cancelled":
        return "(This turn was cancelled before it was finished.)"
    if status == "running":
        return "(This turn was interrupted and not finished.)"
    reason = (error or "").strip().partition("\n")[0][:_NOTE_CHARACTERS]
    return f"(This turn failed: {reason})" if reason else "(This turn failed.)"
