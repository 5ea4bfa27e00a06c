"""What the owner says about facts: this is wrong, it is now so; accept, reject and pin.

Nothing is changed in place. A correction is a new fact that replaces the old one; a decision is one more
entry in the log of decisions. Both can be followed, and a decision can be taken back.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, cast

from nexus import clock
from nexus.errors import MissingError, UsageError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import reviews
from nexus.ledgers.memory.reviews import Decision, State
from nexus.memory.profile import OwnerProfile, newest, versions
from nexus.memory.recall.reading import SQL as RECALL
from nexus.memory.writing import Provenance
from nexus.text import join_lines

SPEAKER: Final = "the owner"
"""Who said what the owner wrote by hand, as prompts name it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OldFact:
    """A fact as it stands, to be corrected."""

    text: str
    source_entity_id: str | None
    relation_type: str | None
    target_entity_id: str | None
    entities: tuple[str, ...]
    replaced_by: str | None


async def load_fact(ledgers: Ledgers, fact_id: str) -> OldFact:
    """Load a fact by its id."""
    row = await ledgers.memory.read(sql.row, sql.queries("memory")["fact_to_correct"], (fact_id,))
    if row is None:
        raise MissingError(f"Unknown fact {fact_id!r}", hint="List them with `nexus memory facts`.")
    text, source, type_, target, linked, by = row
    return OldFact(
        text=text,
        source_entity_id=source,
        relation_type=type_,
        target_entity_id=target,
        entities=tuple(json.loads(linked)),
        replaced_by=by,
    )


async def make_correction(
    ledgers: Ledgers, fact_id: str, statement: str, how: str | None = None
) -> dict[str, Any]:
    """Make the arguments of the fact that replaces another.

    It is about the same subject. Others stay tied to it if the new statement still names them.
    """
    old, text = await load_fact(ledgers, fact_id), join_lines(statement)
    if old.replaced_by is not None:
        raise UsageError(
            f"{fact_id} was replaced already", hint=f"Correct the fact that replaced it: {old.replaced_by}."
        )
    if not text:
        raise UsageError("Say what is true now", hint="To drop a fact without another, reject it.")
    if text == old.text:
        raise UsageError("The correction says the same as the fact")
    others = [id_ for id_ in (old.target_entity_id, *old.entities) if id_]
    still = await _find_named(ledgers, others, text)
    given: dict[str, Any] = {
        "fact": text,
        "about": old.source_entity_id,
        "type": old.relation_type,
        "target": old.target_entity_id if old.target_entity_id in still else None,
        "entities": [id_ for id_ in old.entities if id_ in still],
        "replaces": [fact_id],
        "how": how,
        "source_type": "self_disclosed",
        "metadata": {"speaker": SPEAKER, "corrects": fact_id},
    }
    return {name: value for name, value in given.items() if value}


async def decide(
    ledgers: Ledgers,
    fact_id: str,
    decision: Decision,
    provenance: Provenance,
    *,
    reason: str | None = None,
    now: clock.Clock = clock.now,
) -> State:
    """Record what the owner decided about a fact; returns what holds now."""
    require_owner(provenance)
    await load_fact(ledgers, fact_id)
    moment = clock.timestamp(now())
    held = await ledgers.memory.write(
        reviews.add, fact_id, decision, actor=provenance.actor, now=moment, reason=reason
    )
    if decision != "accept":
        await refresh_profile(ledgers, fact_id, now)
    return held


async def refresh_profile(ledgers: Ledgers, fact_id: str, now: clock.Clock = clock.now) -> None:
    """Make the owner's profile again if it rests on a fact, or if the fact is about the owner."""
    version = await newest(ledgers)
    cited = version is not None and fact_id in {
        each.fact_id for each in await versions.citations(ledgers, version.id)
    }
    if not cited:
        subject = (await load_fact(ledgers, fact_id)).source_entity_id
        owner = await ledgers.identity.read(sql.rows, RECALL["owner"])
        if subject is None or subject not in {row[0] for row in owner}:
            return
    await OwnerProfile(ledgers, now).refresh()


def require_owner(provenance: Provenance) -> None:
    """Raise unless the owner asks."""
    if provenance.kind != "owner":
        raise UsageError(
            f"{provenance.actor} can't decide about facts",
            hint="Only the owner can.",
        )


def credit_owner(arguments: dict[str, Any]) -> dict[str, Any]:
    """Name the owner as the source in the arguments of a fact."""
    return {"source_type": "self_disclosed", "metadata": {"speaker": SPEAKER}, **arguments}


async def _find_named(ledgers: Ledgers, entities: list[str], text: str) -> set[str]:
    """Find those of some entities that a text names."""
    if not entities:
        return set()
    query = sql.queries("identity")["aliases_of"]
    rows = await ledgers.identity.read(sql.rows, query, (json.dumps(entities),))
    said = text.casefold()
    return {cast("str", row[0]) for row in rows if str(row[1]).casefold() in said}
