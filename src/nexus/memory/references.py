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
from nexus.memory.normalisation import guessed_type, normalised
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


def called(connection: apsw.Connection, name: str, phone_region: str = "", scope: str = "") -> list[str]:
    """The entities that go by a name or another alias; one that was merged stands for its root.

    Names that are known in one scope mean nothing outside it.
    """
    forms = {normalised(name), normalised(name, guessed_type(name), phone_region=phone_region)}
    given = (json.dumps(sorted(forms - {""})), scope)
    found = rows(connection, sql.queries("identity")["roots_called"], given)
    return [str(row[0]) for row in found]


class UnknownEntityError(UsageError):
    """A name that no entity has."""


def resolve(connection: apsw.Connection, reference: str, scope: Scope) -> str:
    """The entity that a writer means by an id, a name or another alias.

    An id of the writer's own that is not known yet makes an entity, to be described later.
    """
    if reference not in scope.found:
        known = meant(connection, reference, scope.phone_region)
        scope.found[reference] = known or _placeholder(connection, reference, scope)
    return scope.found[reference]


def meant(connection: apsw.Connection, reference: str, phone_region: str = "") -> str | None:
    """The entity with that id, or the only one that goes by that name."""
    if is_known(connection, reference):
        return reference
    found = called(connection, reference, phone_region)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} entities are called {reference!r}: {', '.join(found[:_SHOWN])}",
            hint="Pass the id of one; `nexus memory show ID` describes it.",
        )
    return found[0] if found else None


def _placeholder(connection: apsw.Connection, reference: str, scope: Scope) -> str:
    if not OWN_ID.fullmatch(reference) or reference.startswith("ent_"):
        hint = "Check the spelling, or create it first."
        raise UnknownEntityError(f"No entity is called {reference!r}", hint=hint)
    if connection.readonly("main") or connection.pragma("query_only"):
        raise MissingError
    connection.execute(
        sql.queries("identity")["add_placeholder"],
        {"id": reference, "normalized": normalised(reference), "now": scope.now},
    )
    scope.placeholders.append(reference)
    return reference


async def scoped(
    ledgers: Ledgers, asked: Sequence[tuple[str, Mapping[str, Any]]], phone_region: str
) -> list[Asked]:
    """The operations with ids of entities in place of labels, in the same order; new entities come last."""
    return await ledgers.identity.read(_scoped, asked=asked, phone_region=phone_region)


def _scoped(
    connection: apsw.Connection, asked: Sequence[tuple[str, Mapping[str, Any]]], phone_region: str
) -> list[Asked]:
    labels: dict[str, str] = {}
    given = [(name, dict(arguments)) for name, arguments in asked]
    for place, (name, arguments) in enumerate(given):
        if name == "entity":
            given[place] = _entity(connection, arguments, labels, phone_region)
    made: dict[str, Asked] = {}
    for _, arguments in given:
        for key in _REFERENCES:
            if isinstance(arguments.get(key), str):
                arguments[key] = _referred(connection, arguments[key], labels, made, phone_region)
        if isinstance(arguments.get("entities"), list):
            arguments["entities"] = [
                _referred(connection, str(each), labels, made, phone_region) for each in arguments["entities"]
            ]
    return [*given, *made.values()]


def _entity(
    connection: apsw.Connection, arguments: dict[str, Any], labels: dict[str, str], phone_region: str
) -> Asked:
    """An entity of a batch. One that goes by that name already gains the aliases instead."""
    label, name = arguments.get("id"), arguments.get("name")
    if not isinstance(name, str) or (isinstance(label, str) and is_known(connection, label)):
        return "entity", arguments
    known = _only(connection, name, phone_region)
    id_ = known or ids.new("ent")
    for each in (label, name):
        if isinstance(each, str):
            labels.setdefault(each, id_)
    if known is None:
        return "entity", {**arguments, "id": id_}
    listed = arguments.get("alias")
    further = cast("list[object]", listed) if isinstance(listed, list) else [listed] if listed else []
    return "alias", {"entity": id_, "alias": [name, *further], **_kept(arguments, "event", "source_type")}


def _referred(
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
        known = meant(connection, reference, phone_region)
    except UsageError:
        return reference  # more than one: the operation says so
    if known is not None:
        return known
    labels[reference] = id_ = ids.new("ent")
    made[reference] = ("entity", {"id": id_, "name": reference})
    return id_


def _only(connection: apsw.Connection, name: str, phone_region: str) -> str | None:
    try:
        return meant(connection, name, phone_region)
    except UsageError:
        return None


def _kept(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: arguments[name] for name in names if arguments.get(name) is not None}
