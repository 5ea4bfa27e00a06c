"""Mental models saved by a write operation: cited, in versions, and in the name of whoever concluded them."""

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.conclusions import mental_models
from nexus.memory.operations import Memory
from nexus.memory.writing import ActorKind, Provenance

NAME = "Mira and suppliers"
QUESTION = "How does Mira choose suppliers?"
BY_TIDY = Provenance(actor="tidy", kind="automation", request_id="req_1")


@pytest.fixture
def memory(opened: Ledgers) -> Memory:
    return Memory(opened)


async def learn(memory: Memory, *facts: str) -> list[str]:
    who = {"operation": "entity", "name": "Mira", "type": "Person"}
    batch = [who, *({"operation": "fact", "about": "Mira", "fact": fact} for fact in facts)]
    written = await memory.run("batch", batch, Provenance(actor="test", kind="owner"))
    return [each["id"] for each in written["results"][1:]]


async def test_a_conclusion_is_saved_with_its_sources_and_its_author(opened: Ledgers, memory: Memory) -> None:
    embedded: list[tuple[str, list[str]]] = []

    async def enqueue(kind: str, ids: list[str]) -> None:
        embedded.append((kind, ids))

    price, visit = await learn(memory, "Mira asks for three prices", "Mira visits a supplier before she buys")
    content = f"Mira asks for three prices [{price}]. She visits first [{visit}, {price}]."
    saved = await Memory(opened, enqueue_embedding=enqueue).run(
        "mental-model", {"name": NAME, "question": QUESTION, "content": content}, BY_TIDY
    )

    assert (saved["name"], saved["version"], saved["sources"]) == (NAME, 1, [price, visit])
    assert "removed" not in saved
    assert embedded == [("mental_model", [saved["id"]])]
    kept = await mental_models.describe(opened, NAME)
    assert (kept["content"], kept["question"], kept["author"]) == (content, QUESTION, "tidy")
    assert (kept["source_request_id"], kept["stale_at"]) == ("req_1", None)
    assert {each["id"]: each["text"] for each in kept["sources"]} == {
        price: "Mira asks for three prices",
        visit: "Mira visits a supplier before she buys",
    }
    subjects = await opened.memory.read(
        lambda c: c.execute("SELECT DISTINCT source_entity_id FROM facts").fetchall()
    )
    assert [(kept["subject_entity_id"],)] == subjects


async def test_the_same_name_makes_the_next_version_and_keeps_the_one_before(
    opened: Ledgers, memory: Memory
) -> None:
    price, visit = await learn(memory, "Mira asks for three prices", "Mira visits a supplier first")
    given = {"name": NAME, "question": QUESTION, "content": f"Prices [{price}]."}
    first = await memory.run("mental-model", given, BY_TIDY)
    second = await memory.run("mental-model", {"name": NAME, "content": f"Visits [{visit}]."}, BY_TIDY)
    # By an id of any version, and with what that one is called and answers.
    third = await memory.run(
        "mental-model", {"previous": first["id"], "content": f"Both [{price}, {visit}]."}, BY_TIDY
    )

    kept = await mental_models.describe(opened, first["id"])
    assert (kept["id"], kept["name"], kept["question"]) == (third["id"], NAME, QUESTION)
    assert [(each["id"], each["version"], each["content"]) for each in kept["versions"]] == [
        (third["id"], 3, f"Both [{price}, {visit}]."),
        (second["id"], 2, f"Visits [{visit}]."),
        (first["id"], 1, f"Prices [{price}]."),
    ]
    assert [each.id for each in await mental_models.list_models(opened)] == [third["id"]]


async def test_what_the_owner_wrote_is_replaced_by_the_owner_alone(opened: Ledgers, memory: Memory) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    owner = Provenance(actor="person:ada", kind="owner")
    given = {"name": NAME, "content": f"Prices [{price}]."}
    first = await memory.run("mental-model", given, owner)
    for again in (given, {"previous": first["id"], "name": "Another", "content": f"Visits [{price}]."}):
        with pytest.raises(UsageError, match="is the owner's") as refused:
            await memory.run("mental-model", again, BY_TIDY)
        assert refused.value.hint == "Save yours under another name."
    assert (await mental_models.load_newest(opened, NAME)).id == first["id"]
    assert (await memory.run("mental-model", given, owner))["version"] == 2


async def test_a_conclusion_has_a_longest_length(opened: Ledgers, memory: Memory) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    content = f"Prices [{price}]".ljust(20_000, ".")
    with pytest.raises(UsageError, match=r"`content` has 20,001 characters; .* at most 20,000"):
        await memory.run("mental-model", {"name": NAME, "content": content + "."}, BY_TIDY)
    assert (await memory.run("mental-model", {"name": NAME, "content": content}, BY_TIDY))["version"] == 1


async def test_only_what_the_memory_holds_may_be_cited(opened: Ledgers, memory: Memory) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    unknown = "fact_01AAAAAAAAAAAAAAAAAAAAAAAA"
    for content, reason in (
        ("Mira likes Osram", "cites no fact"),
        (f"Mira asks for prices [{unknown}].", unknown),
        # Neither the name nor the number is in the fact.
        (f"Mira pays Osram 870 euros [{price}].", price),
    ):
        with pytest.raises(UsageError, match=reason) as refused:
            await memory.run("mental-model", {"name": NAME, "content": content}, BY_TIDY)
        assert "memory-write.sh mental-model" in (refused.value.hint or "")
    assert await mental_models.list_models(opened) == []

    # What holds is saved, and what was taken out is told.
    content = f"Mira asks for three prices [{price}, {unknown}]."
    saved = await memory.run("mental-model", {"name": NAME, "content": content}, BY_TIDY)
    assert (saved["sources"], saved["removed"]) == ([price], [unknown])
    assert (await mental_models.load_newest(opened, NAME)).content == f"Mira asks for three prices [{price}]."


async def test_what_the_owner_rejected_supports_nothing(opened: Ledgers, memory: Memory) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    await memory.decide(price, "reject", Provenance(actor="person:ada", kind="owner"))
    with pytest.raises(UsageError, match="not rejected"):
        await memory.run("mental-model", {"name": NAME, "content": f"Prices [{price}]."}, BY_TIDY)


async def test_a_new_version_rests_on_more_than_the_one_before(opened: Ledgers, memory: Memory) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    first = await memory.run("mental-model", {"name": NAME, "content": f"Prices [{price}]."}, BY_TIDY)
    with pytest.raises(UsageError, match="no fact, observation or other mental model"):
        await memory.run("mental-model", {"name": NAME, "content": f"Prices [{first['id']}]."}, BY_TIDY)


async def test_a_mistake_in_a_batch_writes_nothing_of_it(opened: Ledgers, memory: Memory) -> None:
    batch = [
        {"operation": "fact", "fact": "Tea is ready"},
        {"operation": "mental-model", "name": NAME, "content": "Nothing is cited"},
    ]
    with pytest.raises(UsageError, match="Operation 2 of 2: The conclusion cites no fact"):
        await memory.run("batch", batch, BY_TIDY)
    count = await opened.memory.read(lambda c: c.execute("SELECT count(*) FROM facts").get)
    assert count == 0


async def test_any_text_can_be_a_name_and_what_no_ledger_can_hold_is_replaced(
    opened: Ledgers, memory: Memory
) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    for name in ("it's; DROP TABLE facts", "Grüße 🌱 \u202e", "half \ud800"):
        saved = await memory.run("mental-model", {"name": name, "content": f"\ud800 [{price}]"}, BY_TIDY)
        again = await memory.run("mental-model", {"previous": name, "content": f"Prices [{price}]"}, BY_TIDY)
        assert (saved["version"], again["version"], again["name"]) == (1, 2, saved["name"])


async def test_an_unknown_mental_model_has_no_next_version(memory: Memory) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    with pytest.raises(UsageError, match="Unknown mental model 'mod_1'"):
        await memory.run("mental-model", {"previous": "mod_1", "content": f"Prices [{price}]."}, BY_TIDY)


@pytest.mark.parametrize("kind", ["writer", "client", "unknown"])
async def test_whoever_states_facts_concludes_nothing(
    opened: Ledgers, memory: Memory, kind: ActorKind
) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    given = {"name": NAME, "content": f"Prices [{price}]."}
    with pytest.raises(UsageError, match="is not for somebody"):
        await memory.run("mental-model", given, Provenance(actor="somebody", kind=kind))
    assert await mental_models.list_models(opened) == []


@pytest.mark.parametrize("part", ["name", "question", "content"])
async def test_no_secret_is_saved_in_any_part(memory: Memory, part: str) -> None:
    (price,) = await learn(memory, "Mira asks for three prices")
    given = {"name": NAME, "question": QUESTION, "content": f"Prices [{price}]."}
    given[part] = f"The wifi password is hunter22! {given[part]}"
    with pytest.raises(UsageError, match="doesn't store passwords"):
        await memory.run("mental-model", given, BY_TIDY)
