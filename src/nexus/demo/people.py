"""The people and things of the month, as the memory's ordinary operations make them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nexus import clock, ids
from nexus.demo.month import OWNER, load_cast
from nexus.demo.narration import Narrator
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.identity.senders import Seen
from nexus.memory.conclusions import mental_models, observations
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.mental_models import NewModel
from nexus.memory.conclusions.observations import Conclusions, Draft
from nexus.memory.writing import Provenance

OWNER_SENDER = "owner"
OWNER_ADDRESS = "mira@lumenoak.example"
# The story says who said what and how sure it is.
WRITER = Provenance(actor="memory-writer", kind="owner")


async def introduce(narrator: Narrator) -> None:
    """Make the owner, everybody else with how they are reached, and what they are about."""
    narrator.owner_id = await _owner(narrator)
    for entry in load_cast():
        reach: dict[str, str] = entry.get("reach", {})
        entity = {name: value for name, value in entry.items() if name != "reach"}
        narrator.calendar.spend(40)
        await narrator.memory.run("entity", entity, WRITER)
        for channel, identifier in reach.items():
            narrator.addresses[entry["name"], channel] = identifier
            contact = {"entity": entry["name"], "channel": channel, "identifier": identifier}
            await narrator.memory.run("contact", contact, WRITER)
    await _hard_facts(narrator)


async def _owner(narrator: Narrator) -> str:
    seen = Seen(channel="cli", identifier=OWNER_SENDER, display_name=OWNER, is_owner=True)
    owner = await narrator.ledgers.identity.write(senders.resolve, seen=seen)
    aliases = [OWNER, "Mira", f"{OWNER_ADDRESS}:email"]
    await narrator.memory.run("alias", {"entity": owner.entity_id, "alias": aliases}, WRITER)
    for channel in ("signal", "slack", "email"):
        narrator.addresses[OWNER, channel] = OWNER_ADDRESS
    return owner.entity_id


async def _hard_facts(narrator: Narrator) -> None:
    for entity, category, type_, value in (
        ("Tomas Reyes", "contact", "phone_mobile", "+31612345601"),
        ("Ewa Nowak", "professional", "title", "Head of exhibitions"),
        ("Clara Holm", "professional", "occupation", "Sound engineer"),
    ):
        fact: dict[str, Any] = {"entity": entity, "category": category, "type": type_, "value": value}
        await narrator.memory.run("person-fact", fact, WRITER)


async def let_in(narrator: Narrator, name: str, channel: str) -> None:
    """Let somebody talk to the agent."""
    found = await narrator.ledgers.identity.read(
        senders.find, channel=channel, identifier=narrator.addresses[name, channel]
    )
    assert found is not None  # noqa: S101 - an invariant, for the reader and the type checker
    granted = Granted(tools=("recall",), memory="own")
    await narrator.ledgers.identity.write(
        access.grant, entity_id=found.entity_id, granted=granted, by=OWNER_SENDER
    )


@dataclass(kw_only=True)
class ConclusionWriter:
    """Writes conclusions; knows under which ids earlier ones were kept."""

    narrator: Narrator
    kept: dict[str, str] = field(default_factory=dict[str, str])

    async def observe(self, entry: Mapping[str, Any]) -> None:
        """Record one observation with the facts that it rests on."""
        facts = tuple(self.narrator.facts[key] for key in entry["facts"])
        revised = self.kept.get(entry.get("revises", ""))
        batch = Batch(root_request_id=None, fact_ids=facts, observation_ids=(revised,) if revised else ())
        draft = Draft(text=entry["text"], fact_ids=facts, revises=revised)
        recorded = await observations.record(
            self.narrator.ledgers,
            batch,
            Conclusions(drafts=(draft,)),
            name=ids.new("exe"),
            request_id=self.narrator.request_id,
            now=self._now(),
        )
        assert recorded is not None  # noqa: S101 - an invariant, for the reader and the type checker
        self.kept[entry["key"]] = (*recorded.added, *recorded.revised)[0]

    async def model(self, entry: Mapping[str, Any]) -> None:
        """Keep an answer as a mental model; its sources stand in it by their ids."""
        content, sources = str(entry["content"]), list[tuple[str, str]]()
        for key in entry["sources"]:
            kind = "observation" if key in self.kept else "fact"
            id_ = self.kept.get(key) or self.narrator.facts[key]
            content = content.replace(f"[{key}]", f"[{id_}]")
            sources.append((kind, id_))
        new = NewModel(
            name=entry["name"], question=entry["question"], content=content, sources=tuple(sources)
        )
        await mental_models.append(
            self.narrator.ledgers,
            new,
            id_=ids.new("mod"),
            request_id=self.narrator.request_id,
            now=self._now(),
        )

    def _now(self) -> str:
        return clock.timestamp(self.narrator.calendar.now())
