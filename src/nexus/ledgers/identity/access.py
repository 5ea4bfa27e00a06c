"""Access in the identity ledger: what the owner granted, and the codes by which strangers ask for it."""

import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import apsw

from nexus import clock
from nexus.ledgers import sql
from nexus.request import Memory

# Letters and digits that are not mistaken for each other when they are read out.
_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
_CODE_CHARACTERS = 8
_VALID_FOR = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Granted:
    """What somebody other than the owner may reach."""

    tools: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    network: bool = False
    sessions: tuple[str, ...] = ()
    memory: Memory = "own"


@dataclass(frozen=True, kw_only=True, slots=True)
class Grantee:
    """Somebody who was granted something."""

    entity_id: str
    name: str
    granted: Granted
    since: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairing:
    """Somebody who asks for access."""

    code: str
    channel: str
    identifier: str
    display_name: str | None
    created_at: str
    expires_at: str


def find_grant(connection: apsw.Connection, entity_id: str) -> Granted | None:
    """Return what an entity was granted; None: nothing at all."""
    row = connection.execute(sql.queries("identity")["grant"], (entity_id,)).fetchone()
    return None if row is None else _parse_grant(row)


def grant(connection: apsw.Connection, entity_id: str, granted: Granted, by: str) -> None:
    """Grant something, in the place of what was granted before."""
    connection.execute(
        sql.queries("identity")["put_grant"],
        {
            "entity_id": entity_id,
            "tools": json.dumps(granted.tools),
            "directories": json.dumps(granted.directories),
            "network": int(granted.network),
            "sessions": json.dumps(granted.sessions),
            "memory": granted.memory,
            "granted_by": by,
        },
    )


def revoke(connection: apsw.Connection, entity_id: str) -> bool:
    """Take everything back. False: nothing was granted."""
    connection.execute(sql.queries("identity")["revoke_grant"], (entity_id,))
    return connection.changes() > 0


def list_grantees(connection: apsw.Connection) -> list[Grantee]:
    """Return everybody who was granted something."""
    return [
        Grantee(entity_id=str(row[0]), name=str(row[1]), granted=_parse_grant(row[2:7]), since=str(row[7]))
        for row in connection.execute(sql.queries("identity")["grants"])
    ]


def ask(connection: apsw.Connection, contact_id: str, now: clock.Clock = clock.now) -> tuple[str, bool]:
    """Return the code by which a sender can be approved, the same while valid; and whether it is new."""
    queries = sql.queries("identity")
    values = {"contact_id": contact_id, "now": clock.timestamp(now())}
    standing = cast("str | None", connection.execute(queries["pairing_of"], values).get)
    if standing is not None:
        return standing, False
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_CHARACTERS))
    expires_at = clock.timestamp(now() + _VALID_FOR)
    connection.execute(
        queries["put_pairing"], {"code": code, "contact_id": contact_id, "expires_at": expires_at}
    )
    return code, True


def approve(
    connection: apsw.Connection, code: str, granted: Granted, by: str, now: clock.Clock = clock.now
) -> str | None:
    """Grant something to whoever was told a code; their entity. None: there is no such code."""
    entity_id = _find_asker(connection, code, now)
    if entity_id is not None:
        grant(connection, entity_id, granted, by)
        connection.execute(sql.queries("identity")["drop_pairing"], (code,))
    return entity_id


def refuse(connection: apsw.Connection, code: str, now: clock.Clock = clock.now) -> bool:
    """Let a code count no more. False: there is no such code."""
    found = _find_asker(connection, code, now)
    connection.execute(sql.queries("identity")["drop_pairing"], (code,))
    return found is not None


def list_pairings(connection: apsw.Connection, now: clock.Clock = clock.now) -> list[Pairing]:
    """Return everybody who asks."""
    rows = connection.execute(sql.queries("identity")["pairings"], {"now": clock.timestamp(now())})
    return [sql.make(Pairing, row) for row in rows]


def _find_asker(connection: apsw.Connection, code: str, now: clock.Clock) -> str | None:
    values = {"code": code, "now": clock.timestamp(now())}
    row = connection.execute(sql.queries("identity")["pairing"], values).fetchone()
    return None if row is None else cast("str", row[0])


def _parse_grant(row: Any) -> Granted:
    tools, directories, network, sessions, memory = row
    return Granted(
        tools=tuple(json.loads(tools)),
        directories=tuple(json.loads(directories)),
        network=bool(network),
        sessions=tuple(json.loads(sessions)),
        memory=memory,
    )
