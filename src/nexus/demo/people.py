"""The people and things of the month, as the memory's ordinary operations make them."""

from functools import partial
from typing import Any

from nexus.demo.month import OWNER, cast
from nexus.demo.telling import Telling
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.identity.senders import Seen
from nexus.memory.provenance import Provenance

OWNER_SENDER = "owner"
OWNER_ADDRESS = "mira@lumenoak.example"
# The story says who said what and how sure it is.
WRITER = Provenance(actor="memory-writer", kind="owner")


async def introduce(telling: Telling) -> None:
    """Make the owner, everybody else with how they are reached, and what they are about."""
    telling.owner_id = await _owner(telling)
    for told in cast():
        reach: dict[str, str] = told.get("reach", {})
        entity = {name: value for name, value in told.items() if name != "reach"}
        telling.calendar.spend(40)
        await telling.memory.run("entity", entity, WRITER)
        for channel, identifier in reach.items():
            telling.addresses[told["name"], channel] = identifier
            contact = {"entity": told["name"], "channel": channel, "identifier": identifier}
            await telling.memory.run("contact", contact, WRITER)
    await _hard_facts(telling)


async def _owner(telling: Telling) -> str:
    seen = Seen(channel="cli", identifier=OWNER_SENDER, display_name=OWNER, is_owner=True)
    owner = await telling.ledgers.identity.write(partial(senders.resolve, seen=seen))
    aliases = [OWNER, "Mira", f"{OWNER_ADDRESS}:email"]
    await telling.memory.run("alias", {"entity": owner.entity_id, "alias": aliases}, WRITER)
    for channel in ("signal", "slack", "email"):
        telling.addresses[OWNER, channel] = OWNER_ADDRESS
    return owner.entity_id


async def _hard_facts(telling: Telling) -> None:
    for entity, category, type_, value in (
        ("Tomas Reyes", "contact", "phone_mobile", "+31612345601"),
        ("Ewa Nowak", "professional", "title", "Head of exhibitions"),
        ("Clara Holm", "professional", "occupation", "Sound engineer"),
    ):
        fact: dict[str, Any] = {"entity": entity, "category": category, "type": type_, "value": value}
        await telling.memory.run("person-fact", fact, WRITER)


async def let_in(telling: Telling, name: str, channel: str) -> None:
    """The owner lets somebody talk to the agent."""
    found = await telling.ledgers.identity.read(
        partial(senders.find, channel=channel, identifier=telling.addresses[name, channel])
    )
    assert found is not None  # noqa: S101 - an invariant, for the reader and the type checker
    granted = Granted(tools=("recall",), memory="own")
    await telling.ledgers.identity.write(
        partial(access.grant, entity_id=found.entity_id, granted=granted, by=OWNER_SENDER)
    )
