"""What automations may ask of the memory."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nexus.automations.services import find_matches
from nexus.errors import AutomationError
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import NewFact, append_facts
from nexus.memory.recall.recall import Recall
from nexus.request import Access, Event, Request

OWNER = Request(event=Event(content=""), access=Access(level="owner", memory="all"))


async def asked(opened: Ledgers, question: str, **options: Any) -> list[str]:
    async def by_words_alone() -> Recall:
        return Recall(opened, None)

    found = await find_matches(by_words_alone, OWNER, question, {"deadline_ms": 30_000, **options})
    return [each.item.text for each in found.results]


@pytest.fixture
async def filled(opened: Ledgers) -> Ledgers:
    new = [
        NewFact(fact=f"Tea of {month:02d}", valid_at=datetime(2031, month, 1, tzinfo=UTC)) for month in (1, 5)
    ]
    await opened.memory.write(append_facts, facts=new)
    return opened


async def test_a_question_can_be_kept_to_a_time_and_to_kinds(filled: Ledgers) -> None:
    assert await asked(filled, "tea", after="2031-04-01") == ["Tea of 05"]
    assert await asked(filled, "tea", before="2031-04-01T00:00Z", kinds=["fact"]) == ["Tea of 01"]
    assert await asked(filled, "tea", kinds=["episode"]) == []


async def test_the_best_come_back_however_little_they_say(filled: Ledgers) -> None:
    found = await asked(filled, "tea with a ghost from Mongolia", kinds=["fact"])
    assert sorted(found) == ["Tea of 01", "Tea of 05"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"after": "soon"}, "'soon' is not a moment"),
        ({"before": 7}, "7 is not a moment"),
        ({"kinds": ["tea", "fact"]}, "tea is no kind"),
        ({"limit": "many"}, "limit is not a number: 'many'"),
        ({"colour": 1}, "recall has no option colour"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused(
    opened: Ledgers, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(AutomationError) as refused:
        await asked(opened, "tea", **options)
    assert refused.value.message == told
