"""What a writer means by a reference: an id, a name that one entity goes by, or a label of its batch."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.memory.normalisation import guess_type, normalize
from nexus.memory.writing import MissingError, Scope

EXAMPLE: Final = (
    'memory-write.sh entity --name "Sarah Chen" --type Person --alias "sarah.chen@company.com:email"'
)
# An id of the writer's own, such as `entity-123`. Ours have capitals, so a mistyped one is no such id.
OWN_ID: Final = re.compile(r"[a-z0-9][a-z0-9._:\-]*")
_SHOWN = 5
Asked = tuple[str, dict[str, Any]]

_REFERENCES: Final = ("about", "source", "target", "entity")


def is_known(connection: apsw.Connection, entity_id: str) -> bool:
    """Whether there is an entity with that id."""
    return connection.execute(sql.queries("identity")["has_entity"], (entity_id,)).get is not None


def find_called(connection: apsw.Connection, name: str, phone_region: str = "", scope: str = "") -> list[str]:
    """Find the entities that go by a name or another alias; a merged one stands for its root.

    Names that are known in one scope mean nothing outside it.
    """
    forms = {normalize(name), normalize(name, guess_type(name), phone_region=phone_region)}
    given = (json.dumps(sorted(forms - {""})), scope)
    found = rows(connection, sql.queries("identity")["roots_called"], given)
    return [str(row[0]) for row in found]


class UnknownEntityError(UsageError):
    """A name that no entity has."""


def resolve(connection: apsw.Connection, reference: str, scope: Scope) -> str:
    """Find the entity that a writer means by an id, a name or another alias.

    An id of the writer's own that is not known yet makes an entity, to be described later.
    """
    if reference not in scope.found:
        known = find_meant(connection, reference, scope.phone_region)
        scope.found[reference] = known or _add_placeholder(connection, reference, scope)
    return scope.found[reference]


def find_meant(connection: apsw.Connection, reference: str, phone_region: str = "") -> str | None:
    """Find the entity with that id, or the only one that goes by that name."""
    if is_known(connection, reference):
        return reference
    found = find_called(connection, reference, phone_region)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} entities are called {reference!r}: {', '.join(found[:_SHOWN])}",
            hint="Pass the id of one; `nexus memory show ID` describes it.",
        )
    return found[0] if found else None


def _add_placeholder(connection: apsw.Connection, reference: str, scope: Scope) -> str:
    if not OWN_ID.fullmatch(reference) or reference.startswith("ent_"):
        hint = "Check the spelling, or create it first."
        raise UnknownEntityError(f"No entity is called {reference!r}", hint=hint)
    if connection.readonly("main") or connection.pragma("query_only"):
        raise MissingError
    connection.execute(
        sql.queries("identity")["add_placeholder"],
        {"id": reference, "normalized": normalize(reference), "now": scope.now},
    )
    scope.placeholders.append(reference)
    return reference


async def resolve_labels(
    ledgers: Ledgers, asked: Sequence[tuple[str, Mapping[str, Any]]], phone_region: str
) -> list[Asked]:
    """Replace labels in operations by ids of entities, in the same order; new entities come last."""
    return await ledgers.identity.read(_resolve_labels, asked=asked, phone_region=phone_region)


def _resolve_labels(
    connection: apsw.Connection, asked: Sequence[tuple[str, Mapping[str, Any]]], phone_region: str
) -> list[Asked]:
    labels: dict[str, str] = {}
    given = [(name, dict(arguments)) for name, arguments in asked]
    for place, (name, arguments) in enumerate(given):
        if name == "entity":
            given[place] = _resolve_entity(connection, arguments, labels, phone_region)
    made: dict[str, Asked] = {}
    for _, arguments in given:
        for key in _REFERENCES:
            if isinstance(arguments.get(key), str):
                arguments[key] = _resolve_reference(connection, arguments[key], labels, made, phone_region)
        if isinstance(arguments.get("entities"), list):
            arguments["entities"] = [
                _resolve_reference(connection, str(each), labels, made, phone_region)
                for each in arguments["entities"]
            ]
    return [*given, *made.values()]


def _resolve_entity(
    connection: apsw.Connection, arguments: dict[str, Any], labels: dict[str, str], phone_region: str
) -> Asked:
    """Resolve an entity of a batch. One that goes by that name already gains the aliases instead."""
    label, name = arguments.get("id"), arguments.get("name")
    if not isinstance(name, str) or (isinstance(label, str) and is_known(connection, label)):
        return "entity", arguments
    known = _find_only(connection, name, phone_region)
    id_ = known or ids.new("ent")
    for each in (label, name):
        if isinstance(each, str):
            labels.setdefault(each, id_)
    if known is None:
        return "entity", {**arguments, "id": id_}
    listed = arguments.get("alias")
    further = cast("list[object]", listed) if isinstance(listed, list) else [listed] if listed else []
    kept = {key: arguments[key] for key in ("event", "source_type") if arguments.get(key) is not None}
    return "alias", {"entity": id_, "alias": [name, *further], **kept}


def _resolve_reference(
    connection: apsw.Connection,
    reference: str,
    labels: dict[str, str],
    made: dict[str, Asked],
    phone_region: str,
) -> str:
    if reference in labels:
        return labels[reference]
    # A word in small letters is a label of a run, or an id: the memory says what it makes of it.
    if OWN_ID.fullmatch(reference) or reference.startswith("ent_"):
        return reference
    try:
        known = find_meant(connection, reference, phone_region)
    except UsageError:
        return reference  # more than one: the operation says so
    if known is not None:
        return known
    labels[reference] = id_ = ids.new("ent")
    made[reference] = ("entity", {"id": id_, "name": reference})
    return id_


def _find_only(connection: apsw.Connection, name: str, phone_region: str) -> str | None:
    try:
        return find_meant(connection, name, phone_region)
    except UsageError:
        return None
