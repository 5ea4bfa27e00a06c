"""Automations in the runtime ledger: what is registered, in which version, and how it fares.

A new version is a new row; of each name the newest that was not superseded is the one that counts.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable, storable_or_none

CircuitState = Literal["closed", "open", "half_open"]
DEFAULT_HOOK_POINT = "runAutomations"
NOT_YET = "not yet: "
"""How the reason begins of one that is enabled by itself once what it needs is there."""
IMPORTED = "imported: waits for approval"
PROPOSED = "proposed: waits for approval"
"""The reason of one that came with an import and that nobody has approved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAutomation:
    """What somebody registers."""

    name: str
    script_path: str
    script_hash: str | None
    hook_point: str = DEFAULT_HOOK_POINT
    description: str | None = None
    mode: str = "persistent"
    triggers: dict[str, Any] = field(default_factory=dict[str, Any])
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    workspace_dir: str | None = None
    peer_workspaces: tuple[str, ...] = ()
    self_improvement: bool = False
    timeout_ms: int | None = None
    blocking: bool = True
    priority: int = 100
    retries: int = 0
    """How often a failed async invocation is tried again."""
    disabled_reason: str | None = None
    """Where it is not to run yet: why."""
    created_by_agent: str | None = None
    created_by_session: str | None = None
    created_by_thread: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Automation:
    """One version of an automation. `mode` and `status` are as stored."""

    id: str
    name: str
    description: str | None
    mode: str
    status: str
    script_path: str | None
    script_hash: str | None
    triggers: dict[str, Any]
    config: dict[str, Any]
    created_by_agent: str | None
    created_by_session: str | None
    created_by_thread: str | None
    version: int
    previous_version_id: str | None
    created_at: str
    updated_at: str
    disabled_at: str | None
    disabled_reason: str | None
    last_triggered: str | None
    trigger_count: int
    last_error: str | None
    consecutive_errors: int
    circuit_state: CircuitState
    circuit_opened_at: str | None
    hook_point: str
    workspace_dir: str | None
    peer_workspaces: tuple[str, ...]
    self_improvement: bool
    timeout_ms: int | None
    blocking: bool
    priority: int
    retries: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Automation":
        fields: dict[str, Any] = {**value, "peer_workspaces": tuple(value["peer_workspaces"])}
        return cls(**fields)


def list_current(connection: apsw.Connection) -> list[Automation]:
    """Of every name the row that counts, in the order in which a hook point runs them."""
    return [_automation(row) for row in connection.execute(_select_statement("automations"))]


def get(connection: apsw.Connection, name: str) -> Automation | None:
    """Return the row of a name that counts."""
    return next((each for each in versions(connection, name) if each.status != "superseded"), None)


def by_id(connection: apsw.Connection, automation_id: str) -> Automation | None:
    """Return one version."""
    row = connection.execute(_select_statement("automation_by_id"), (automation_id,)).fetchone()
    return None if row is None else _automation(row)


def versions(connection: apsw.Connection, name: str) -> list[Automation]:
    """Return every version of a name, the newest first."""
    return [_automation(row) for row in connection.execute(_select_statement("automation_versions"), (name,))]


def count_names(connection: apsw.Connection, prefix: str) -> int:
    """Count how many names begin like this, also of those that were removed."""
    return cast("int", connection.execute(sql.queries("runtime")["count_automation_names"], (prefix,)).get)


def register(connection: apsw.Connection, new: NewAutomation) -> Automation:
    """Record a new version; the ones before it are superseded."""
    queries = sql.queries("runtime")
    known = versions(connection, new.name)
    previous = next((each for each in known if each.status != "superseded"), None)
    automation_id = ids.new("aut")
    connection.execute(queries["supersede_automation"], (new.name,))
    connection.execute(
        queries["add_automation"],
        {
            **_columns(new),
            "id": automation_id,
            "version": max((each.version for each in known), default=0) + 1,
            "previous_version_id": previous and previous.id,
        },
    )
    if new.disabled_reason is not None:
        disable(connection, automation_id, new.disabled_reason)
    made = by_id(connection, automation_id)
    assert made is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return made


def remove(connection: apsw.Connection, name: str) -> bool:
    """Supersede a name without a successor: it is listed no more, and its history stays."""
    connection.execute(sql.queries("runtime")["supersede_automation"], (name,))
    return connection.changes() > 0


def enable(connection: apsw.Connection, automation_id: str) -> None:
    """Let it run again, with a closed circuit."""
    connection.execute(sql.queries("runtime")["enable_automation"], (automation_id,))


def disable(connection: apsw.Connection, automation_id: str, reason: str | None) -> None:
    """Let it run no more, until it is enabled."""
    connection.execute(
        sql.queries("runtime")["disable_automation"],
        {"id": automation_id, "reason": storable_or_none(reason)},
    )


def adopt(connection: apsw.Connection, automation_id: str, script_hash: str) -> None:
    """Take the script as it lies there for a row that came without a hash."""
    connection.execute(sql.queries("runtime")["adopt_script"], {"id": automation_id, "hash": script_hash})


def _select_statement(name: str) -> str:
    queries = sql.queries("runtime")
    return queries[name].replace("{columns}", queries["automation_columns"])


def _columns(new: NewAutomation) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(new, name) for name in NewAutomation.__slots__}
    return {
        **{name: storable(value) if isinstance(value, str) else value for name, value in values.items()},
        "triggers_json": json.dumps(new.triggers, sort_keys=True) if new.triggers else None,
        "config_json": json.dumps(new.config, sort_keys=True) if new.config else None,
        "peer_workspaces": json.dumps(new.peer_workspaces) if new.peer_workspaces else None,
        "self_improvement": int(new.self_improvement),
        "blocking": int(new.blocking),
    }


def _automation(row: Any) -> Automation:
    values: dict[str, Any] = dict(zip(Automation.__slots__, row, strict=True))
    for name in ("triggers", "config"):
        values[name] = _object(values[name])
    for name in ("self_improvement", "blocking"):
        values[name] = bool(values[name])
    values["peer_workspaces"] = _texts(values["peer_workspaces"])
    values["hook_point"] = values["hook_point"] or DEFAULT_HOOK_POINT
    if values["circuit_state"] not in {"open", "half_open"}:
        values["circuit_state"] = "closed"
    return Automation(**values)


def _object(text: str | None) -> dict[str, Any]:
    """Return a JSON object; nothing where a row from elsewhere holds something that is none."""
    value = _json(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(text: str | None) -> tuple[str, ...]:
    value = _json(text)
    return tuple(map(str, cast("list[Any]", value))) if isinstance(value, list) else ()


def _json(text: str | None) -> object:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None
