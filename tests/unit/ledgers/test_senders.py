"""Whom a channel's identifier belongs to."""

from pathlib import Path

import apsw

from nexus.ledgers import Ledgers, migrate
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


def test_senders_of_an_older_home_are_matched_exactly_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "identity.db"
    migrate.build(path, "identity", 5)
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO entities (id, type, canonical_name, normalized_name) "
        "VALUES ('e', 'Person', 'Sam', 'sam')"
    )
    connection.execute("INSERT INTO contacts (id, entity_id, channel) VALUES ('c', 'e', 'desk')")
    add = (
        "INSERT INTO contact_identifiers (contact_id, channel, type, identifier, normalized) "
        "VALUES ('c', 'desk', ?, ?, ?)"
    )
    connection.execute(add, ("handle", "SAM", "sam"))
    connection.execute(add, ("phone", "+49 170", "+49170"))
    migrate.upgrade(connection, "identity")
    found = senders.find(connection, "desk", "SAM")
    assert found is not None
    assert found.entity_id == "e"
    assert senders.find(connection, "desk", "sam") is None
    assert senders.find(connection, "desk", "+49170") is not None
    connection.close()
