"""Causes come with what they caused, and only to those who may see them."""

from dataclasses import replace
from typing import Any

import pytest

from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Item, Link, Match, Query
from nexus.memory.recall.order import Ranked, place_causes
from nexus.memory.recall.recall import Recall
from nexus.request import Visibility
from unit.memory.recall.homes import LONG_MS, NOW, say

_CAUSE = "The parking fee rose to 1,400 kronor a month."
_EFFECT = "Nora decided against a second car."


async def _linked(opened: Ledgers, relation: str = "caused") -> tuple[str, str]:
    memory = Memory(opened)
    (here,) = await say(opened, "here", ("Nora", "No second car for us."), channel="here")
    (there,) = await say(opened, "there", ("Erik", "They raised the fee again."), channel="there")
    effect = (await memory.run("fact", {"fact": _EFFECT, "event": here}))["id"]
    cause = (await memory.run("fact", {"fact": _CAUSE, "event": there}))["id"]
    await memory.run("causal-link", {"cause": cause, "effect": effect, "relation": relation})
    return str(cause), str(effect)


async def _facts(opened: Ledgers, text: str, visible: Visibility | None = None) -> dict[str, Match]:
    recall = Recall(opened, None, now=lambda: NOW, visible=visible or Visibility())
    answer = await recall.find(Query(text=text, deadline_ms=LONG_MS))
    return {result.item.id: result for result in answer.results if result.item.kind == "fact"}


async def test_a_fact_comes_with_what_caused_it(opened: Ledgers) -> None:
    cause, effect = await _linked(opened)
    found = await _facts(opened, "second car")
    assert found[effect].item.caused_by == (Link(cause, _CAUSE, "caused"),)
    assert found[cause].item.leads_to == (Link(effect, _EFFECT, "caused"),)


@pytest.mark.parametrize("relation", ["replaced", "distinct"])
async def test_what_was_replaced_or_is_true_as_well_is_no_cause(opened: Ledgers, relation: str) -> None:
    _, effect = await _linked(opened, relation)
    assert (await _facts(opened, "second car"))[effect].item.caused_by == ()


async def test_a_cause_from_elsewhere_is_not_shown_to_a_guest(opened: Ledgers) -> None:
    _, effect = await _linked(opened)
    found = await _facts(opened, "second car", Visibility(channels=frozenset({"here"})))
    assert list(found) == [effect]
    assert found[effect].item.caused_by == ()


def test_asked_why_the_cause_stands_right_behind_its_effect() -> None:
    def ranked(id_: str, score: float) -> Ranked:
        item = Item(kind="fact", id=id_, text=id_, at="2026-01-01T00:00:00.000Z")
        return Ranked(item=item, score=score, probability=0.5)

    effect = ranked("effect", 3.0)
    effect = replace(effect, item=replace(effect.item, caused_by=(Link("cause", "cause", "caused"),)))
    given = [effect, ranked("other", 2.0), ranked("cause", 1.0)]
    assert [e.item.id for e in place_causes(given, asks_why=True)] == ["effect", "cause", "other"]
    assert [e.item.id for e in place_causes(given, asks_why=False)] == ["effect", "other", "cause"]
    ahead = [ranked("cause", 4.0), *given[:2]]
    assert [e.item.id for e in place_causes(ahead, asks_why=True)] == ["cause", "effect", "other"]
    scores = [entry.score for entry in place_causes(given, asks_why=True)]
    assert scores == sorted(scores, reverse=True)


def test_asked_why_cause_and_effect_are_as_strong_as_the_stronger_of_them() -> None:
    """ "Why does the Tidal Room open later?": that it does matches best, and the strike is the answer."""

    def ranked(id_: str, **more: Any) -> Ranked:
        item = Item(kind="fact", id=id_, text=id_, at="2026-01-01T00:00:00.000Z", **more)
        return Ranked(item=item, score=1.0, probability=0.1, strong=id_ == "effect")

    given = [
        ranked("effect", caused_by=(Link("cause", "cause", "caused"),)),
        ranked("cause"),
        ranked("other"),
    ]
    assert [e.strong for e in place_causes(given, asks_why=True)] == [True, True, False]
    assert [e.strong for e in place_causes(given, asks_why=False)] == [True, False, False]
    weak, strong = replace(given[0], strong=False), replace(given[1], strong=True)
    assert [e.strong for e in place_causes([weak, strong], asks_why=True)] == [True, True]
    # The cause may be ahead of its effect.
    ahead = [replace(given[1], strong=False, need=0.5), given[2], given[0]]
    placed = place_causes(ahead, asks_why=True)
    assert [(e.item.id, e.strong, e.need) for e in placed] == [
        ("cause", True, 0.5),
        ("other", False, 0.0),
        ("effect", True, 0.5),
    ]
