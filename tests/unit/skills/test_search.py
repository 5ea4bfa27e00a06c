"""What the search script finds, for whom."""

import pytest

from nexus.ledgers import Ledgers
from nexus.memory.recall.recall import Recall
from nexus.request import EVERYTHING, Visibility
from nexus.skills.commands import parse_query, search


@pytest.mark.parametrize(
    ("visible", "named"),
    [(EVERYTHING, ["ent_tyler"]), (Visibility(thread_ids=frozenset({"thr_1"})), [])],
    ids=["the owner", "somebody who sees one thread"],
)
async def test_entities_are_named_to_those_who_may_see_everything(
    opened: Ledgers, visible: Visibility, named: list[str]
) -> None:
    await opened.identity.write(
        lambda c: (
            c.execute(
                "INSERT INTO entities (id, type, canonical_name, normalized_name) "
                "VALUES ('ent_tyler', 'Person', 'Tyler', 'tyler')"
            )
            and c.execute(
                "INSERT INTO entity_aliases (id, entity_id, alias, normalized) "
                "VALUES ('ali_1', 'ent_tyler', 'Tyler', 'tyler')"
            )
            and None
        )
    )
    assert parse_query(["Tyler"], {"scope": "persons"}).kinds == frozenset({"entity"})
    query = parse_query(["Tyler"], {"scope": "entities"})
    answer = await search(opened, Recall(opened, None, visible=visible), query)
    assert [each["id"] for each in answer["entities"]] == named
    assert bool(answer["results"]) == bool(named)
