"""New entities are checked against all others; near ones are noted, never merged."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw
import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.embedding import DEFAULT_MODEL, MODELS, Vectors, find, load
from nexus.memory.embedding.vectors import Source
from nexus.memory.operations import Memory
from nexus.memory.upkeep import review
from nexus.memory.writing import Provenance


@pytest.fixture
def memory(opened: Ledgers) -> Memory:
    return Memory(opened, phone_region="US")


async def make(memory: Memory, name: str, *aliases: str, type_: str = "Person") -> dict[str, Any]:
    return await memory.run("entity", {"name": name, "type": type_, "alias": list(aliases)})


def signals(made: dict[str, Any]) -> dict[str, list[str]]:
    return {
        candidate["entity_id"]: [reason["signal"] for reason in candidate["reasons"]]
        for candidate in made["candidates"]
    }


async def test_a_near_name_is_noted_with_its_reasons(memory: Memory) -> None:
    one = await make(memory, "Sarah Chen")

    assert signals(await make(memory, "Sara Chen")) == {one["id"]: ["similar name"]}


async def test_a_shared_address_is_noted_whatever_the_names(memory: Memory) -> None:
    one = await make(memory, "S. C.", "(650) 253-0000:phone")

    assert signals(await make(memory, "The Boss", "+1 650 253 0000:phone")) == {one["id"]: ["same phone"]}


@pytest.mark.parametrize("names", [("Room 101", "Room 102"), ("Nexus v1", "Nexus v2")])
async def test_rooms_and_versions_are_not_candidates_even_where_their_vectors_agree(
    opened: Ledgers, names: tuple[str, str]
) -> None:
    async def one(text: str, ids: Sequence[str]) -> dict[str, float]:
        return dict.fromkeys(ids, 0.99)

    memory = Memory(opened, cosines=one)
    await make(memory, names[0], type_="Place")
    second = await make(memory, names[1], type_="Place")

    assert second["candidates"] == []
    assert await review(opened, cosines=one) == 0


async def test_rooms_with_one_telephone_are_candidates_by_that(memory: Memory) -> None:
    one = await make(memory, "Room 101", "+1 650 253 0000:phone", type_="Place")

    made = await make(memory, "Room 102", "+1 650 253 0000:phone", type_="Place")

    assert signals(made) == {one["id"]: ["same phone"]}


async def test_a_vector_strengthens_what_the_name_only_hints_at(opened: Ledgers) -> None:
    embedder = load(find(MODELS[DEFAULT_MODEL]))
    vectors = Vectors(opened.embeddings, embedder)
    first = await make(Memory(opened), "Sarah")
    source = Source(target_type="entity", target_id=first["id"], text="Sarah Chen")
    await vectors.put([source], embedder.embed([source.text]))

    assert (await make(Memory(opened), "Sarah Chen"))["candidates"] == []
    made = await make(Memory(opened, cosines=partial(vectors.cosines, "entity")), "Sarah Chen")

    assert set(signals(made)[first["id"]]) == {"name within name", "similar meaning"}
    assert await vectors.cosines("entity", "anything", ["nobody"]) == {}


async def test_a_new_alias_brings_new_candidates(memory: Memory) -> None:
    one = await make(memory, "Sarah", "s@example.com:email")
    other = await make(memory, "Boss")

    answer = await memory.run("alias", {"entity": other["id"], "alias": "s@example.com"})

    assert signals(answer) == {one["id"]: ["same email"]}


async def test_a_rejected_pair_is_not_proposed_again(memory: Memory) -> None:
    await make(memory, "Sarah Chen")
    made = await make(memory, "Sara Chen")
    await memory.run(
        "reject", {"candidate": made["candidates"][0]["id"][-6:]}, Provenance(actor="me", kind="owner")
    )

    again = await memory.run("alias", {"entity": made["id"], "alias": "Sarah Chen:name"})

    assert again["candidates"] == []
    with pytest.raises(UsageError, match="Unknown merge candidate"):
        await memory.run("reject", {"candidate": "mrg_x"})


async def test_what_is_merged_already_is_no_candidate(memory: Memory) -> None:
    one, other = await make(memory, "Sarah Chen"), await make(memory, "Boss")
    await memory.run("merge", {"source": other["id"], "target": one["id"]})

    answer = await memory.run("alias", {"entity": other["id"], "alias": "Sarah Chen:name"})

    assert answer["candidates"] == []


async def test_one_person_on_two_channels_is_two_until_they_are_merged(
    opened: Ledgers, memory: Memory
) -> None:
    def seen(connection: apsw.Connection) -> list[str]:
        return [
            senders.resolve(
                connection, seen=Seen(channel=channel, identifier=identifier, display_name="Samira Okafor")
            ).entity_id
            for channel, identifier in (("telegram", "7"), ("mail", "sam@example.org"), ("telegram", "7"))
        ]

    on_telegram, by_mail, again = await opened.identity.write(seen)
    assert on_telegram == again
    assert on_telegram != by_mail, "a name that anybody can choose joins nobody"
    await memory.run(
        "merge", {"source": by_mail, "target": on_telegram}, Provenance(actor="me", kind="owner")
    )
    assert set(await opened.identity.write(seen)) == {on_telegram}
