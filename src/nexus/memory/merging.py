"""Merging two entities, and taking it back.

A merge moves no row. It sets one pointer, from the root of the one to the other as it was named, and
writes an audit row that explains the pointer. Everything else finds the root when it reads. So taking a
merge back is removing that pointer: each entity has what it had, and what was written to it since.
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory.arguments import Arguments
from nexus.memory.normalisation import normalize
from nexus.memory.references import is_known, resolve
from nexus.memory.writing import Scope, Step, storable_or_none

MERGE_EXAMPLE: Final = (
    'memory-write.sh merge --source "S. Chen" --target "Sarah Chen" --reason "same address"'
)
REJECT_EXAMPLE: Final = "memory-write.sh reject --candidate mrg_01…"
UNMERGE_EXAMPLE: Final = 'memory-write.sh unmerge --entity ent_01… --reason "two different people"'


@dataclass(kw_only=True, slots=True)
class Merge(Step):
    """Let one entity stand for another from now on."""

    writes_identity: ClassVar[bool] = True

    source: str
    target: str
    reason: str | None
    id: str
    source_id: str = ""
    target_id: str = ""
    root_id: str = ""

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("identity")
        asked, self.target_id = (resolve(connection, each, scope) for each in (self.source, self.target))
        self.source_id, self.root_id = root(connection, asked), root(connection, self.target_id)
        if self.source_id == self.root_id:
            raise UsageError(
                f"{self.source!r} and {self.target!r} are one entity already: {self.root_id}",
                hint=f"`nexus memory show {self.root_id}` lists what was merged into it.",
            )
        pair = sorted((self.source_id, self.target_id))
        candidate = next(iter(rows(connection, queries["candidate_of_pair"], pair)), None)
        before = {"asked": asked, "candidate": candidate[1:] if candidate else None}
        connection.execute(queries["set_merged_into"], (self.target_id, self.source_id))
        connection.execute(
            queries["add_merge_event"],
            {
                "id": self.id,
                "action": "merge",
                "source": self.source_id,
                "target": self.target_id,
                "candidate": candidate[0] if candidate else None,
                "undoes": None,
                "actor": storable(scope.provenance.actor),
                "reason": storable_or_none(self.reason),
                "before": json.dumps(before),
                "now": scope.now,
            },
        )
        if candidate:
            connection.execute(
                queries["resolve_candidate"],
                ("accepted", storable(scope.provenance.actor), scope.now, candidate[0]),
            )

    def answer(self) -> dict[str, Any]:
        return {
            "merge_id": self.id,
            "merged": self.source_id,
            "into": self.target_id,
            "root": self.root_id,
        }


@dataclass(kw_only=True, slots=True)
class Reject(Step):
    """Record that two entities are different."""

    writes_identity: ClassVar[bool] = True

    candidate: str

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("identity")
        found = rows(connection, queries["candidate_status"], (self.candidate,))
        if len(found) != 1:
            raise UsageError(
                f"Unknown merge candidate {self.candidate!r}",
                hint="List them with `nexus memory candidates`.",
            )
        self.candidate, status = found[0]
        if status == "accepted":
            raise UsageError(
                f"{self.candidate} was accepted: its entities are merged",
                hint="Undo the merge first with `unmerge`.",
            )
        actor = storable(scope.provenance.actor)
        connection.execute(queries["resolve_candidate"], ("rejected", actor, scope.now, self.candidate))

    def answer(self) -> dict[str, Any]:
        return {"candidate_id": self.candidate, "status": "rejected"}


@dataclass(kw_only=True, slots=True)
class Unmerge(Step):
    """Let an entity that was merged stand for itself again."""

    writes_identity: ClassVar[bool] = True

    entity: str
    reason: str | None
    id: str
    entity_id: str = ""
    from_id: str = ""
    undoes_id: str | None = None

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("identity")
        self.entity_id = _merged_one(connection, self.entity, scope)
        into = connection.execute(queries["merged_into"], (self.entity_id,)).get
        if into is None:
            raise _not_merged(connection, self.entity_id)
        self.from_id = cast("str", into)
        merge = next(iter(rows(connection, queries["standing_merge"], (self.entity_id, self.from_id))), None)
        self.undoes_id = merge[0] if merge else None
        connection.execute(queries["set_merged_into"], (None, self.entity_id))
        connection.execute(
            queries["add_merge_event"],
            {
                "id": self.id,
                "action": "unmerge",
                "source": self.entity_id,
                "target": self.from_id,
                "candidate": merge[1] if merge else None,
                "undoes": self.undoes_id,
                "actor": storable(scope.provenance.actor),
                "reason": storable_or_none(self.reason),
                "before": "{}",
                "now": scope.now,
            },
        )
        if merge and merge[1]:
            _restore_candidate(connection, merge[1], merge[2], json.loads(merge[3]))

    def answer(self) -> dict[str, Any]:
        return {
            "unmerge_id": self.id,
            "entity_id": self.entity_id,
            "was_merged_into": self.from_id,
            "undoes": self.undoes_id,
        }


def parse_merge(arguments: Arguments) -> Merge:
    """`merge`: source, target, and optionally reason."""
    return Merge(
        source=arguments.require("source"),
        target=arguments.require("target"),
        reason=arguments.text("reason"),
        id=ids.new("mev"),
    )


def parse_unmerge(arguments: Arguments) -> Unmerge:
    """`unmerge`: entity, and optionally reason."""
    return Unmerge(entity=arguments.require("entity"), reason=arguments.text("reason"), id=ids.new("mev"))


def parse_reject(arguments: Arguments) -> Reject:
    """`reject`: candidate."""
    return Reject(candidate=arguments.require("candidate"))


def root(connection: apsw.Connection, entity_id: str) -> str:
    """Find the entity that one stands for now."""
    # Pointers in a circle, which only a hand can have made, have no end.
    return cast("str", connection.execute(sql.queries("identity")["root"], (entity_id,)).get or entity_id)


def family(connection: apsw.Connection, entity_id: str) -> list[str]:
    """Find every entity that is the same as one now: its root first, then all that were merged into it."""
    found = rows(connection, sql.queries("identity")["family"], (root(connection, entity_id),))
    return [str(row[0]) for row in found]


def _merged_one(connection: apsw.Connection, reference: str, scope: Scope) -> str:
    """Find the entity to take out: by its id, or by a name that was its own before it was merged."""
    if is_known(connection, reference):
        return reference
    found = rows(connection, sql.queries("identity")["merged_called"], (normalize(reference),))
    if len(found) > 1:
        listed = ", ".join(str(row[0]) for row in found)
        raise UsageError(
            f"{len(found)} merged entities are called {reference!r}: {listed}", hint="Give the id of one."
        )
    return str(found[0][0]) if found else resolve(connection, reference, scope)


def _restore_candidate(
    connection: apsw.Connection, candidate_id: str, merged_at: str, before: dict[str, Any]
) -> None:
    """Put a candidate back as it was before the merge, unless it was decided again since."""
    status, resolved_by, resolved_at = before["candidate"]
    connection.execute(
        sql.queries("identity")["restore_candidate"],
        (status, resolved_by, resolved_at, candidate_id, merged_at),
    )


def _not_merged(connection: apsw.Connection, entity_id: str) -> UsageError:
    members = [each for each in family(connection, entity_id) if each != entity_id]
    return UsageError(
        f"{entity_id} is not merged into another entity",
        hint=f"Merged into it are {', '.join(members)}: name the one to take out."
        if members
        else "Nothing is merged with it.",
    )
