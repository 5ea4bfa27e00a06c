"""Whom a channel's identifier belongs to."""

from nexus.ledgers import Ledgers
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen


async def test_identifiers_that_look_alike_belong_to_different_people(opened: Ledgers) -> None:
    alike = ("@sam:x.org", "@Sam:x.org", "@\u017fam:x.org", "strasse", "straße", "k", "\u212a")
    people = [
        await opened.identity.write(senders.resolve, Seen(channel="desk", identifier=identifier))
        for identifier in alike
    ]
    assert len({each.entity_id for each in people}) == len(alike)
    for identifier, person in zip(alike, people, strict=True):
        found = await opened.identity.read(senders.find, "desk", identifier)
        assert found is not None
        assert found.entity_id == person.entity_id
    assert await opened.identity.read(senders.find, "desk", "K") is None
