"""Groups of people: when several who meet are an entity of their own.

Two are never one: what ties them is a relationship. Three to five are named once they have met often
enough to be a group. Six and more always are.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import apsw

from nexus import clock
from nexus.ledgers import Ledgers, memory, sql
from nexus.ledgers.memory import NewFact
from nexus.ledgers.sql import rows
from nexus.memory import entities
from nexus.memory.arguments import Arguments
from nexus.memory.references import is_known
from nexus.memory.writing import Provenance, Scope

TYPE: Final = "Group"
_MEMBER_OF: Final = "MEMBER_OF"

_FEWEST_MEMBERS: Final = 3
_ALWAYS_NAMED: Final = 6
_TIMES_TOGETHER: Final = 3
_SPELLED_OUT: Final = 6


def is_named(members: int, times_together: int) -> bool:
    """Whether people who meet are a group with a name, by the rule of three and six."""
    if members >= _ALWAYS_NAMED:
        return True
    return members >= _FEWEST_MEMBERS and times_together >= _TIMES_TOGETHER


def name_group(members: Sequence[str]) -> str:
    """Name a group that nobody has named: `Ada, Ben and Cleo`, `Ada, Ben and 9 others`."""
    first = sorted(dict.fromkeys(members))
    if len(first) > _SPELLED_OUT:
        first = [*first[:2], f"{len(first) - 2} others"]
    return " and ".join(filter(None, (", ".join(first[:-1]), first[-1])))


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A named group: an entity that stands for its members."""

    id: str
    name: str
    # The members' ids and names.
    members: dict[str, str]

    def join(self, connection: apsw.Connection, episode_id: str, now: str) -> None:
        """Mention the group in an episode and, where nobody has said it yet, who belongs to it."""
        queries = sql.queries("memory")
        connection.execute(queries["mention_entity"], (episode_id, self.id, 1))
        if connection.execute(queries["has_members"], (self.id,)).get:
            return
        observed = [
            NewFact(
                fact=f"{name} belongs to the group {self.name}",
                source_entity_id=member,
                relation_type=_MEMBER_OF,
                target_entity_id=self.id,
                source_type="observed",
                source_episode_id=episode_id,
            )
            for member, name in self.members.items()
        ]
        memory.append_facts(connection, observed, lambda: clock.parse(now))


async def ensure_group(ledgers: Ledgers, present: Sequence[str], now: str) -> Group | None:
    """Make the group of the people present, if the rule says that it has a name."""

    def work(connection: apsw.Connection) -> tuple[list[str], dict[str, str]]:
        queries, wanted = sql.queries("identity"), json.dumps(list(present))
        as_met = [str(row[0]) for row in rows(connection, queries["are_people"], (wanted,))]
        return as_met, {
            str(id_): str(name) for id_, name in rows(connection, queries["people_among"], (wanted,))
        }

    as_met, members = await ledgers.identity.read(work)
    if not is_named(len(members), await count_meetings(ledgers, as_met) + 1):
        return None
    # The same members give the same id, so that work which is done again finds what it made.
    digest = hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()[:20]
    group = Group(id=f"group-{digest}", name=name_group(list(members.values())), members=members)
    await ledgers.identity.write(_put, group, now)
    return group


async def count_meetings(ledgers: Ledgers, present: Sequence[str]) -> int:
    """Count the episodes in which all of these were mentioned."""
    query = sql.queries("memory")["times_together"]
    together = json.dumps(sorted(set(present)))
    return cast("int", await ledgers.memory.read(sql.value, query, (together,)))


def _put(connection: apsw.Connection, group: Group, now: str) -> None:
    if not is_known(connection, group.id):
        given = {"id": group.id, "name": group.name, "type": TYPE}
        step = entities.parse(Arguments("entity", given, ""))
        step.in_identity(connection, Scope(provenance=Provenance(actor="episodes"), now=now))
