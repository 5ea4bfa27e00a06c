"""What the memory offers for a task: recall's best, as far as the asker may see."""

import asyncio
from dataclasses import dataclass, replace

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import reviews
from nexus.ledgers.runtime import requests
from nexus.memory.recall import need
from nexus.memory.recall.item import Item, Kind, Match, Matches, Query, Reasons
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.selection import token_count
from nexus.request import Request, Visibility
from nexus.roles.memory_injection.triage import PIN
from nexus.roles.services import Services

# How many are judged, and how long recall may take on a machine that has much else to do.
_JUDGED = 60
_JUDGED_TOKENS = 30_000
_RECALL_MS = 1_000
_OPENING_S = 1.0
# A pinned fact about nobody in particular counts where it is among so many of the best.
_NEAR = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a request is about: the message that caused it is no memory of it."""

    task: str
    event_id: str | None
    since: str

    def is_new(self, item: Item) -> bool:
        """Whether a message came with the request or after it."""
        return item.kind == "event" and (item.id == self.event_id or item.at >= self.since)


async def find_task(ledgers: Ledgers, request: Request) -> Asked:
    """Find the task, and the message at the root of it."""
    root = request.root_request_id
    stored = None
    if root != request.request_id:
        stored = await ledgers.runtime.read(requests.get, request_id=root)
    return Asked(
        task=request.event.content,
        event_id=stored.event_id if stored else request.event.id,
        since=stored.created_at if stored else request.created_at,
    )


async def is_empty(ledgers: Ledgers, about: Asked) -> bool:
    """Tell whether there is nothing that could be recalled. It costs next to nothing to know."""
    if await ledgers.memory.read(sql.value, sql.queries("memory")["anything_learned"]):
        return False
    before = {"since": about.since, "id": about.event_id or ""}
    return not await ledgers.events.read(sql.value, sql.queries("events")["any_before"], before)


async def recall_candidates(
    services: Services, request: Request, about: Asked, kinds: frozenset[Kind]
) -> Matches | None:
    """Recall the best for the task, not judged yet; None where nothing may or can be recalled."""
    seen = request.access.visibility(request.event.thread_id)
    if seen.nothing or not about.task.strip():
        return None
    recall = await _open_recall(services, seen)
    answer = await find_candidates(recall, about.task, kinds)
    if "fact" in kinds:
        answer = await add_pinned(services.ledgers, recall, answer)
    return replace(answer, results=tuple(r for r in answer.results if not about.is_new(r.item)))


async def add_pinned(ledgers: Ledgers, recall: Recall, answer: Matches) -> Matches:
    """Add the pinned facts of whomever the answer names, and those that are about nobody and near.

    They pass the same gate as everything: what the asker may not see is not loaded.
    """
    ours, free = await ledgers.memory.read(reviews.pinned_about, list(answer.named))
    near = {match.item.id for match in answer.results[:_NEAR]}
    pinned = [*ours, *(id_ for id_ in free if id_ in near)]
    if not pinned:
        return answer
    found = {match.item.id for match in answer.results}
    missing = await recall.load_items([id_ for id_ in pinned if id_ not in found])
    further = [_make_match(item, PIN) for item in missing]
    results = [_mark_pinned(match) if match.item.id in pinned else match for match in answer.results]
    return replace(answer, results=(*results, *further))


def _make_match(item: Item, arm: str, about: str | None = None) -> Match:
    """An item that comes with what recall found, whatever its place would have been."""
    reasons = Reasons(
        arms={arm: (1, 1.0)}, about=about, confidence=item.confidence, source_type=item.source_type
    )
    return Match(item=item, score=0.0, probability=0.0, tokens=token_count(item.text), reasons=reasons)


def _mark_pinned(match: Match) -> Match:
    arms = {**match.reasons.arms, PIN: (1, 1.0)}
    return replace(match, reasons=replace(match.reasons, arms=arms))


async def _open_recall(services: Services, seen: Visibility) -> Recall:
    """Open the memory, by words alone while the model that finds by meaning is still being loaded."""
    opening = asyncio.ensure_future(services.recall(seen))
    try:
        async with asyncio.timeout(_OPENING_S):
            return await asyncio.shield(opening)
    except TimeoutError:
        # Nobody waits for it any more, and the next task finds the model loaded.
        opening.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        return Recall(services.ledgers, None, visible=seen)


async def find_candidates(
    recall: Recall, task: str, kinds: frozenset[Kind] | None = None, *, deadline_ms: int = _RECALL_MS
) -> Matches:
    """Ask for what is to be judged here."""
    query = Query(
        text=task,
        max_results=_JUDGED,
        max_tokens=_JUDGED_TOKENS,
        budget="low",
        deadline_ms=deadline_ms,
        retained=False,
    )
    answer = await recall.find(query if kinds is None else replace(query, kinds=kinds))
    if not need.reaches_somebody(task) or (kinds is not None and "entity" not in kinds):
        return answer
    # Whom the task names ranks low beside what is known of them, and their addresses are needed.
    found = {match.item.id for match in answer.results}
    named = {id_: meant.name for id_, meant in answer.named.items() if not meant.is_owner}
    missing = await recall.load_items([id_ for id_ in named if id_ not in found])
    further = [_make_match(item, "graph", about=named[item.id]) for item in missing]
    return replace(answer, results=(*answer.results, *further))
