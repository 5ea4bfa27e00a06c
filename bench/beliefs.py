"""PrecisionMemBench: its beliefs as a memory, its cases, and its scoring.

A belief becomes an entity with its aliases and an observation about it, written with the ordinary
operations; its scope is the channel that it was said on, and what replaced it is linked to it. Another user
is another home. Scoring follows the benchmark's own harness: pinned beliefs are listed by the harness and
are not counted, relations bring what they tie together, and a budget is shared with what is pinned.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus import clock
from nexus.ledgers import Ledgers, events
from nexus.memory.operations import Memory

_MOST = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One question with what must come back."""

    id: str
    category: str
    user: str
    scopes: frozenset[str]
    query: str
    expected: frozenset[str]
    most: int


@dataclass(frozen=True, slots=True)
class Scored:
    """What came back for a case, and how good that is. None: there is nothing to measure."""

    case: Case
    returned: tuple[str, ...]
    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class Fixture:
    """The benchmark's files."""

    beliefs: list[dict[str, Any]]
    cases: list[Case]

    @property
    def users(self) -> list[str]:
        return sorted({case.user for case in self.cases} | {belief["user_id"] for belief in self.beliefs})


def read(folder: Path) -> Fixture:
    """Read the beliefs and the single-turn cases."""
    beliefs = json.loads((folder / "beliefs.seed.json").read_text(encoding="utf-8"))
    pinned = {belief["_id"] for belief in beliefs if belief["pinned"]}
    cases = json.loads((folder / "retrieval.cases.json").read_text(encoding="utf-8"))
    return Fixture(beliefs, [_case(case, pinned) for case in cases])


async def remember(ledgers: Ledgers, beliefs: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Write beliefs to a home; returns which belief each entity and fact of the memory is."""
    memory, known = Memory(ledgers), dict[str, str]()
    facts: dict[str, str] = {}
    for belief in sorted(beliefs, key=lambda belief: belief["created_at"]):
        event_id = await _said(ledgers, belief)
        made = await memory.run("batch", {"operations": _operations(belief, event_id)})
        for result in made["results"]:
            known[result["id"]] = belief["_id"]
            if result["id"].startswith("fact_"):
                facts[belief["_id"]] = result["id"]
    for belief in beliefs:
        if belief["superseded_by"] in facts:
            link = {"cause": facts[belief["_id"]], "effect": facts[belief["superseded_by"]]}
            await memory.run("causal-link", {**link, "relation": "replaced"})
    return known


def score(case: Case, returned: Sequence[str], beliefs: Sequence[dict[str, Any]]) -> Scored:
    """As the benchmark's harness does."""
    own = {belief["_id"]: belief for belief in beliefs if belief["user_id"] == case.user}
    pinned = [id_ for id_, belief in own.items() if _is_listed(belief, case)]
    found = [id_ for id_ in dict.fromkeys(returned) if id_ in own and id_ not in pinned][:_MOST]
    tied = [
        other for id_ in found for other in own[id_].get("participants", []) if _is_tied(own, other, case)
    ]
    all_found = [id_ for id_ in dict.fromkeys([*found, *tied]) if id_ not in pinned]
    kept = tuple(all_found[: max(0, case.most - len(pinned[: case.most]))])
    hits = len(case.expected.intersection(kept))
    nothing = not kept and not case.expected
    return Scored(
        case=case,
        returned=kept,
        precision=None if nothing else hits / len(kept) if kept else 0.0,
        recall=hits / len(case.expected) if case.expected else None,
    )


def means(scored: Sequence[Scored]) -> tuple[float, float]:
    """The mean precision and the mean recall, each over the cases that have one."""
    precisions = [each.precision for each in scored if each.precision is not None]
    recalls = [each.recall for each in scored if each.recall is not None]
    return sum(precisions) / max(1, len(precisions)), sum(recalls) / max(1, len(recalls))


def _case(case: dict[str, Any], pinned: set[str]) -> Case:
    relevant = case["expect"].get("relevantBeliefs", {})
    expected = relevant.get("shouldOnlyInclude")
    if expected is None:
        expected = [id_ for id_ in relevant.get("mustInclude", []) if id_ not in pinned]
    return Case(
        id=case["caseId"],
        category=case["category"],
        user=case.get("userId", "test-user"),
        scopes=frozenset(case["scope"]),
        query=case["query"],
        expected=frozenset(expected),
        most=case.get("budget", {}).get("maxBeliefs", _MOST),
    )


def _is_listed(belief: dict[str, Any], case: Case) -> bool:
    gone = belief["superseded_by"] or belief["resolved_at"] or belief["type"] == "open_question"
    return belief["pinned"] and not gone and bool(case.scopes.intersection(belief["scope"]))


def _is_tied(own: dict[str, dict[str, Any]], id_: str, case: Case) -> bool:
    belief = own.get(id_)
    return (
        belief is not None
        and belief["type"] != "open_question"
        and bool(case.scopes.intersection(belief["scope"]))
    )


async def _said(ledgers: Ledgers, belief: dict[str, Any]) -> str:
    """The message that taught it, in the channel of its scope."""
    channel, at = belief["scope"][0], clock.parse(belief["created_at"])

    def work(connection: Any) -> str:
        thread = events.ensure_thread(connection, channel=channel, external_id=channel)
        said = events.NewEvent(
            channel=channel,
            content=belief["content"],
            thread_id=thread,
            sender="owner",
            occurred_at=at,
        )
        return events.append(connection, [said])[0]

    return await ledgers.events.write(work)


def _operations(belief: dict[str, Any], event_id: str) -> list[dict[str, Any]]:
    name = belief["canonical_name"].replace("_", " ")
    entity = {
        "operation": "entity",
        "id": belief["_id"],
        "name": name,
        "type": belief["type"],
        "alias": belief["aliases"],
    }
    fact = {
        "operation": "fact",
        "about": belief["_id"],
        "fact": belief["content"],
        "type": belief["type"].upper(),
        "confidence": belief["confidence"],
        "valid_at": belief["updated_at"],
        "event": event_id,
    }
    if belief["resolved_at"]:
        fact["valid_until"] = belief["resolved_at"]
    return [entity, fact]
