"""What a writer means by a reference: an id, or any name that one entity goes by."""

import json
import re
from typing import Final

import apsw

from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.memory.normalisation import guessed_type, normalised
from nexus.memory.writing import MissingError, Scope

EXAMPLE: Final = (
    'memory-write.sh entity --name "Sarah Chen" --type Person --alias "sarah.chen@company.com:email"'
)
# An id of the writer's own, such as `entity-123`. Ours have capitals, so a mistyped one is no such id.
OWN_ID: Final = re.compile(r"[a-z0-9][a-z0-9._:\-]*")
_SHOWN = 5


def is_known(connection: apsw.Connection, entity_id: str) -> bool:
    """Whether there is an entity with that id."""
    return connection.execute(sql.queries("identity")["has_entity"], (entity_id,)).get is not None


def called(connection: apsw.Connection, name: str, phone_region: str = "") -> list[str]:
    """The entities that go by a name or another alias; one that was merged stands for its root."""
    forms = {normalised(name), normalised(name, guessed_type(name), phone_region=phone_region)}
    found = rows(connection, sql.queries("identity")["roots_called"], (json.dumps(sorted(forms - {""})),))
    return [str(row[0]) for row in found]


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
        raise UsageError(f"No entity is called {reference!r}", hint=f"Create it first: {EXAMPLE}")
    if connection.readonly("main") or connection.pragma("query_only"):
        raise MissingError
    connection.execute(
        sql.queries("identity")["add_placeholder"],
        {"id": reference, "normalized": normalised(reference), "now": scope.now},
    )
    scope.placeholders.append(reference)
    return reference
