"""Browsers that get notifications, and what they were notified of."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable


@dataclass(frozen=True, kw_only=True, slots=True)
class Subscription:
    """One browser: where its push service takes messages, and the keys that only it can open them with."""

    id: str
    endpoint: str
    p256dh: str
    auth: str
    session: str
    browser: str
    created_at: str
    last_sent_at: str | None
    failure: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """What a browser hands out when it subscribes."""

    endpoint: str
    p256dh: str
    auth: str


def subscribe(connection: apsw.Connection, keys: Keys, *, session: str, browser: str, now: str) -> None:
    """Record a browser; one that is known already gets its new keys."""
    values = {
        "id": ids.new("psh"),
        "endpoint": keys.endpoint,
        "p256dh": keys.p256dh,
        "auth": keys.auth,
        "session": session,
        "browser": storable(browser),
        "now": now,
    }
    connection.execute(sql.queries("runtime")["subscribe_push"], values)


def subscriptions(connection: apsw.Connection) -> list[Subscription]:
    """Return every browser that gets notifications."""
    rows = sql.rows(connection, sql.queries("runtime")["push_subscriptions"])
    return [sql.make(Subscription, row) for row in rows]


def unsubscribe(connection: apsw.Connection, id_: str) -> bool:
    """Forget a browser. False where there is none."""
    connection.execute(sql.queries("runtime")["unsubscribe_push"], (id_,))
    return bool(connection.changes())


def unsubscribe_endpoint(connection: apsw.Connection, endpoint: str) -> None:
    """Forget the browser that is reached there."""
    connection.execute(sql.queries("runtime")["unsubscribe_push_endpoint"], (endpoint,))


def forget_login(connection: apsw.Connection, session: str | None) -> None:
    """Forget the browsers of a login that ended; without one, all."""
    queries = sql.queries("runtime")
    if session is None:
        connection.execute(queries["unsubscribe_push_all"])
    else:
        connection.execute(queries["unsubscribe_push_session"], (session,))


def record_arrived(connection: apsw.Connection, id_: str, now: str) -> None:
    connection.execute(sql.queries("runtime")["push_arrived"], {"id": id_, "now": now})


def record_failed(connection: apsw.Connection, id_: str, failure: str) -> None:
    connection.execute(sql.queries("runtime")["push_failed"], {"id": id_, "failure": storable(failure)})


def list_unsent(connection: apsw.Connection, item_ids: Iterable[str]) -> set[str]:
    """Return those of some items that no browser was notified of."""
    wanted = set(item_ids)
    rows = sql.rows(connection, sql.queries("runtime")["pushed"], (json.dumps(sorted(wanted)),))
    return wanted - {str(row[0]) for row in rows}


def claim(connection: apsw.Connection, item_id: str, now: str) -> bool:
    """Record that this process sends an item, before it does; False where another one has."""
    values = {"item": item_id, "now": now}
    return connection.execute(sql.queries("runtime")["claim_push"], values).get is not None


def release(connection: apsw.Connection, item_id: str) -> None:
    """Record that it reached nobody, so that it is tried again later."""
    connection.execute(sql.queries("runtime")["release_push"], (item_id,))


def prune(connection: apsw.Connection, before: str) -> None:
    connection.execute(sql.queries("runtime")["prune_push"], (before,))


def waiting_approvals(connection: apsw.Connection, *, since: str, limit: int = 50) -> list[tuple[Any, ...]]:
    """Return approvals that wait: id, tool, arguments, and whether other people's text was read before."""
    values = {"since": since, "limit": limit}
    return sql.rows(connection, sql.queries("runtime")["approvals_to_push"], values)


def ended_workers(
    connection: apsw.Connection, *, since: str, channels: Iterable[str], limit: int = 50
) -> list[tuple[Any, ...]]:
    """Return workers of the owner that have ended: id, session, task and status."""
    values = {"since": since, "channels": json.dumps(list(channels)), "limit": limit}
    return sql.rows(connection, sql.queries("runtime")["workers_to_push"], values)
