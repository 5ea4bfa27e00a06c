"""Sessions in the agents ledger: one conversation for each label. A fork shares its parent's past."""

from dataclasses import dataclass
from typing import cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import sql


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A conversation of an agent."""

    id: str
    label: str
    role: str
    model: str | None
    thread_id: str | None
    parent_session_id: str | None
    forked_at_position: int | None
    created_at: str
    updated_at: str
    title: str | None = None
    """What the owner calls it."""
    archived_at: str | None = None
    source: str = "nexus"
    """The program whose session it is."""


def get(connection: apsw.Connection, label: str) -> Session | None:
    """Return the session of a label."""
    row = connection.execute(sql.queries("agents")["session"], (label,)).fetchone()
    return None if row is None else sql.make(Session, row)


def newest_of_people(connection: apsw.Connection, limit: int) -> list[Session]:
    """Return the sessions that people write to, by last use."""
    rows = connection.execute(sql.queries("agents")["newest_sessions_of_people"], (limit,))
    return [sql.make(Session, row) for row in rows]


def rename(connection: apsw.Connection, session_id: str, title: str | None) -> None:
    """Give a session a title; None goes back to its label."""
    connection.execute(sql.queries("agents")["rename_session"], {"id": session_id, "title": title})


def archive(connection: apsw.Connection, session_id: str, archived: bool) -> None:
    """Hide a session from lists, or show it again. It also comes back when it is used."""
    values = {"id": session_id, "archived": archived}
    connection.execute(sql.queries("agents")["archive_session"], values)


def ensure(
    connection: apsw.Connection,
    label: str,
    *,
    role: str,
    model: str | None = None,
    thread_id: str | None = None,
    fork_of: str | None = None,
    fork_through: str | None = None,
) -> Session:
    """Return the session of a label, made if it is new.

    A new one may be a fork: it begins with all turns of the session `fork_of` that have ended by now, or
    with those up to the turn of the run `fork_through`. What that session says later is not part of it.
    A session that has no past yet leaves nothing to share. One that was imported is read only.
    """
    found = get(connection, label)
    parent = None if fork_of is None or found is not None else get(connection, fork_of)
    for each in (found, parent):
        if each is not None and each.source != "nexus":
            raise UsageError(
                f"The session {each.label} was imported from {each.source} and can't be continued",
                hint="Start a session of its own and ask about it there.",
            )
    if found is not None:
        return found
    queries = sql.queries("agents")
    connection.execute(
        queries["add_session"],
        {
            "id": ids.new("ses"),
            "label": label,
            "role": role,
            "model": model,
            "thread_id": thread_id,
            "parent_session_id": parent and parent.id,
            "forked_at_position": parent and _end(connection, parent.id, fork_through),
        },
    )
    made = get(connection, label)
    assert made is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return made


def _end(connection: apsw.Connection, session_id: str, through: str | None) -> int:
    queries = sql.queries("agents")
    end = connection.execute(queries["end_of_turn"], (session_id, through)).get
    return cast("int", end or connection.execute(queries["end_of_history"], (session_id,)).get)
