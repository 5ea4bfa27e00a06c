"""Memory injection: turns a task into the few memories that its agent needs, or none.

The steps, in order: load the task, recall candidates, judge them with the local triage, let the fast model
choose if that is enabled, format the result, and record what was offered with its verdict: what the triage
chose and the best of what it left out, but not what it may never inject.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from nexus import ids
from nexus.automations.context import Context, Run
from nexus.context import history
from nexus.context.wrapping import wrapped
from nexus.errors import NexusError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.agents.history import History, Turn
from nexus.ledgers.memory import reviews
from nexus.ledgers.runtime import injections, requests
from nexus.memory.conclusions import batches
from nexus.memory.languages import cues
from nexus.memory.recall import ranker
from nexus.memory.recall.item import PIN, Item, Kind, Match, Matches, Query, Reasons, kinds
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.words import token_count
from nexus.request import Request, Visibility
from nexus.roles.memory_injection import triage
from nexus.roles.memory_injection.formatting import format_memories, parse_memories
from nexus.roles.memory_injection.triage import EMPTY_CONVERSATION, Conversation, Verdict
from nexus.roles.services import Services, role_text

_TIMEOUT_MS: Final = 3_000
# Part of the timeout reserved for the steps after the model's answer: formatting and recording.
_MARGIN_MS: Final = 400

# Recall's limits: how many candidates the triage judges, and for how long recall may run on a busy machine.
_JUDGED: Final = 60
_JUDGED_TOKENS: Final = 30_000
_RECALL_MS: Final = 1_000
_OPENING_S: Final = 1.0
# A pinned fact that isn't about anybody the task names counts only if it ranks among the first few.
_PINNED_AMONG: Final = 10

# The model's limits: how many candidates it sees, and how much of each.
_OFFERED: Final = 12
_OFFERED_CHARACTERS: Final = 400
# Below this probability that anything answers, asking the model isn't worth its cost.
_HOPELESS: Final = 0.02
# One turn to answer and two calls of `recall` before it.
_TURNS: Final = 3
_CANCELING_S: Final = 0.1

_ID: Final = re.compile(r"\b[a-z]{3,}_[0-9A-HJKMNP-TV-Z]{26}\b")
_CHOICE: Final = re.compile(r"\d{1,3}|[a-z]{2,5}_[0-9A-Za-z_-]{3,64}")
_NO_CHOICE: Final = re.compile(r"none|nothing|null|\[\s*\]|0", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[\s,;\[\]\"'`.#*]+|\band\b|(?<!\S)-(?!\S)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The text of a task, and the message at the root of it, which is no memory of itself."""

    text: str
    event_id: str | None
    since: str

    def is_new(self, item: Item) -> bool:
        """Whether a message arrived with the request or after it."""
        return item.kind == "event" and (item.id == self.event_id or item.at >= self.since)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The model's choice: numbers of the list it was shown, from 1, and ids that it found itself."""

    numbers: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The outcome of asking the model. Without a choice, `failure` says why."""

    execution_id: str | None = None
    choice: Choice | None = None
    failure: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The memories to inject, and the verdicts on what a model may choose from, in recall's order."""

    items: list[Item]
    verdicts: list[Verdict]
    decided_by: injections.Decider
    execution_id: str | None = None


class Injection:
    """The automation that runs before a task, within its timeout."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._has_memories = False
        """Set once there is something to recall; from then on the ledgers aren't asked again."""

    async def __call__(self, context: Context) -> dict[str, Any] | None:
        deadline = Deadline((context.automation.timeout_ms or _TIMEOUT_MS) - _MARGIN_MS)
        request, conversation = context.request, EMPTY_CONVERSATION
        earlier = str(request.enrichment.get("memories") or "")
        try:
            async with asyncio.timeout(deadline.left_s):
                task = await load_task(self._services.ledgers, request)
                if not await self._may_recall(task):
                    return None
                # A registration may narrow the kinds, as with `{"scope": "facts,observations"}`.
                candidates = await recall_candidates(
                    self._services.ledgers,
                    partial(_open_recall, self._services),
                    request,
                    task,
                    kinds(context.config.get("scope")),
                )
                if candidates is None or not candidates.results:
                    return None
                conversation = await load_conversation(
                    self._services.ledgers, request, request.agent.session_label, earlier
                )
        except TimeoutError:
            context.log.warning("recall took too long: the run begins without memories")
            return None
        decision = await self._decide(context, task, candidates, conversation, deadline)
        block = await format_items(self._services.ledgers, decision.items)
        self._record(context, decision)
        if not decision.items:
            return None
        return {"enrich": {"memories": "\n".join(filter(None, (earlier, block)))}}

    async def _may_recall(self, task: Task) -> bool:
        """Check cheaply whether the home holds anything at all to recall."""
        if not self._has_memories:
            ledgers = self._services.ledgers
            before = {"since": task.since, "id": task.event_id or ""}
            self._has_memories = bool(
                await ledgers.memory.read(sql.value, sql.queries("memory")["anything_learned"])
                or await ledgers.events.read(sql.value, sql.queries("events")["any_before"], before)
            )
        return self._has_memories

    async def _decide(
        self,
        context: Context,
        task: Task,
        candidates: Matches,
        conversation: Conversation,
        deadline: Deadline,
    ) -> Decision:
        """Judge by the local triage, and let the model choose where that is enabled and promising."""
        verdicts = triage.judge(candidates, task=task.text, conversation=conversation)
        chosen = [verdict.result.item for verdict in verdicts if verdict.chosen]
        # What the triage chose, then the best of the rest, in recall's order: what a model may choose from.
        room = max(0, _OFFERED - len(chosen))
        rest = [verdict for verdict in verdicts if not verdict.chosen and not verdict.is_final][:room]
        kept = {verdict.result.item.id for verdict in rest}
        offered = [verdict for verdict in verdicts if verdict.chosen or verdict.result.item.id in kept]
        local = Decision(items=chosen, verdicts=offered, decided_by="triage")

        config = self._services.config
        asks_model = config.memory.injection == "model" and bool(config.models.fast)
        is_promising = candidates.answerable >= _HOPELESS and (cues.asks(task.text) or cues.orders(task.text))
        if not asks_model or not (chosen or is_promising):
            return local
        clipped = [_clip(verdict.result.item) for verdict in offered]
        lines = (await format_items(self._services.ledgers, clipped)).splitlines()
        reply = await ask_model(context, task.text, lines, deadline)
        if reply.choice is None:
            context.log.info("%s: the local triage decides", reply.failure)
            return replace(local, execution_id=reply.execution_id)
        decision = await self._apply_choice(context, task, candidates, conversation, offered, reply.choice)
        return replace(decision, execution_id=reply.execution_id)

    async def _apply_choice(
        self,
        context: Context,
        task: Task,
        candidates: Matches,
        conversation: Conversation,
        offered: list[Verdict],
        choice: Choice,
    ) -> Decision:
        """Apply the model's choice within the triage's rules and limits; unknown ids are ignored."""
        wanted = {offered[number - 1].result.item.id for number in choice.numbers} | set(choice.ids)
        verdicts: list[Verdict] = []
        for verdict in offered:
            is_wanted = verdict.result.item.id in wanted
            why = "the model chose it" if is_wanted else "the model left it out"
            verdicts.append(verdict if verdict.is_final else replace(verdict, chosen=is_wanted, why=why))
        verdicts = triage.limit_verdicts(verdicts, task.text)
        items = [verdict.result.item for verdict in verdicts if verdict.chosen]
        judged = {verdict.result.item.id for verdict in verdicts}

        request, further = context.request, [id_ for id_ in choice.ids if id_ not in judged]
        visible = request.access.visibility(request.event.thread_id)
        if further and not visible.nothing:
            recall = await self._services.open_recall(visible)
            items += [
                item
                for item in await recall.load_items(further)
                if not task.is_new(item)
                and not triage.find_objection(item, candidates, task.text, conversation)
            ]
        most = max(sum(verdict.chosen for verdict in verdicts), triage.LIMITS.most)
        return Decision(items=triage.choose_fitting(items, most), verdicts=verdicts, decided_by="model")

    def _record(self, context: Context, decision: Decision) -> None:
        judged = [(verdict.result.item, verdict) for verdict in decision.verdicts]
        listed = {item.id for item, _ in judged}
        found_by_model = [(item, None) for item in decision.items if item.id not in listed]
        rows = [
            injections.Injection(
                id=ids.new("inj"),
                invocation_id=context.invocation_id,
                request_id=context.request.request_id,
                root_request_id=context.request.root_request_id,
                execution_id=decision.execution_id,
                rank=rank,
                item_kind=item.kind,
                item_id=item.id,
                text_sha256=hashlib.sha256(item.text.encode()).hexdigest(),
                score=round(verdict.result.score, 4) if verdict else 0.0,
                probability=round(verdict.result.probability, 4) if verdict else 0.0,
                why=f"{verdict.why} ({', '.join(verdict.result.reasons.name_ways())})"
                if verdict
                else "the model found it itself and chose it",
                decided_by=decision.decided_by,
                injected=verdict is None or verdict.chosen,
            )
            for rank, (item, verdict) in enumerate([*judged, *found_by_model], start=1)
        ]
        self._services.ledgers.runtime.write_along(injections.add, injections=rows)


async def load_task(ledgers: Ledgers, request: Request) -> Task:
    """Load a request's task with the message at its root."""
    stored = None
    if request.root_request_id != request.request_id:
        stored = await ledgers.runtime.read(requests.get, request_id=request.root_request_id)
    return Task(
        text=request.event.content,
        event_id=stored.event_id if stored else request.event.id,
        since=stored.created_at if stored else request.created_at,
    )


async def recall_candidates(
    ledgers: Ledgers,
    open_recall: Callable[[Visibility, frozenset[str]], Awaitable[Recall]],
    request: Request,
    task: Task,
    kinds: frozenset[Kind],
    *,
    deadline_ms: int = _RECALL_MS,
) -> Matches | None:
    """Recall the best matches for a task; None if nothing may be seen or there is nothing to ask."""
    visible = request.access.visibility(request.event.thread_id)
    if visible.nothing or not task.text.strip():
        return None
    # The message would be its own best answer, and make any task look as if the memory could answer it.
    recall = await open_recall(visible, frozenset(filter(None, (request.event.id, task.event_id))))
    candidates = await find_candidates(recall, task.text, kinds, deadline_ms=deadline_ms)
    if "fact" in kinds:
        candidates = await _add_pinned(ledgers, recall, candidates)
    return replace(candidates, results=tuple(m for m in candidates.results if not task.is_new(m.item)))


async def _open_recall(services: Services, visible: Visibility, without: frozenset[str]) -> Recall:
    """Open the memory, without vectors while the embedding model is still loading."""
    opening = asyncio.ensure_future(services.open_recall(visible, without))
    try:
        async with asyncio.timeout(_OPENING_S):
            return await asyncio.shield(opening)
    except TimeoutError:
        # Loading goes on in the background for the next task; its failure is nobody's to handle here.
        opening.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        return Recall(services.ledgers, None, visible=visible, without=without)


async def find_candidates(
    recall: Recall, task: str, kinds: frozenset[Kind] | None = None, *, deadline_ms: int = _RECALL_MS
) -> Matches:
    """Recall candidates for a task, with the contact details of everybody it is to reach."""
    query = Query(
        text=task,
        max_results=_JUDGED,
        max_tokens=_JUDGED_TOKENS,
        budget="low",
        deadline_ms=deadline_ms,
        for_task=True,
    )
    candidates = await recall.find(query if kinds is None else replace(query, kinds=kinds))
    if not ranker.reaches_somebody(task) or (kinds is not None and "entity" not in kinds):
        return candidates
    # An entity ranks below the facts about it, but its addresses are needed.
    found = {match.item.id for match in candidates.results}
    named = {id_: meant.name for id_, meant in candidates.named.items() if not meant.is_owner}
    missing = await recall.load_items([id_ for id_ in named if id_ not in found])
    further = [_make_match(item, "graph", about=named[item.id]) for item in missing]
    return replace(candidates, results=(*candidates.results, *further))


async def _add_pinned(ledgers: Ledgers, recall: Recall, candidates: Matches) -> Matches:
    """Add the pinned facts about whomever the task names, and mark those that ranked high anyway.

    Pinned facts pass the same access checks as everything else.
    """
    about_named, general = await ledgers.memory.read(reviews.pinned_about, list(candidates.named))
    best = {match.item.id for match in candidates.results[:_PINNED_AMONG]}
    pinned = [*about_named, *(id_ for id_ in general if id_ in best)]
    if not pinned:
        return candidates
    results = [
        replace(match, reasons=replace(match.reasons, arms={**match.reasons.arms, PIN: (1, 1.0)}))
        if match.item.id in pinned
        else match
        for match in candidates.results
    ]
    found = {match.item.id for match in results}
    missing = await recall.load_items([id_ for id_ in pinned if id_ not in found])
    return replace(candidates, results=(*results, *(_make_match(item, PIN) for item in missing)))


def _make_match(item: Item, arm: str, about: str | None = None) -> Match:
    """Make a match of an item that is added to recall's results, whatever its rank would have been."""
    reasons = Reasons(
        arms={arm: (1, 1.0)}, about=about, confidence=item.confidence, source_type=item.source_type
    )
    return Match(item=item, score=0.0, probability=0.0, tokens=token_count(item.text), reasons=reasons)


async def load_conversation(
    ledgers: Ledgers, request: Request, session_label: str, memories: str = ""
) -> Conversation:
    """Load the ids of what a session's agent can see already, and of the memories injected before."""
    return find_seen(await history.load(ledgers, request, session_label), memories)


def find_seen(past: History, memories: str = "") -> Conversation:
    """Find the ids of what a history holds, and of the memories injected before.

    A message that was edited and sent again counts as seen: its author took it back.
    """
    turns = [turn.derive(_find_ids) for turn in past.blocks]
    return Conversation(
        event_ids=past.taken_back.union(*(turn.event_ids for turn in turns)),
        item_ids=frozenset(parse_memories(memories)).union(*(turn.item_ids for turn in turns)),
    )


def _find_ids(turn: Turn) -> Conversation:
    return Conversation(
        event_ids=frozenset(message.event_id for message in turn.messages if message.event_id),
        item_ids=frozenset(found for message in turn.messages for found in _ID.findall(message.content)),
    )


async def ask_model(context: Context, task: str, lines: Sequence[str], deadline: Deadline) -> Reply:
    """Ask the fast model which lines a task needs, at the request's expense; failures are returned."""
    try:
        async with asyncio.timeout(deadline.left_s):
            run = await _start_run(context, task, lines, deadline)
    except TimeoutError:
        return Reply(failure="the model could not be asked in time")
    except NexusError as error:
        return Reply(failure=f"the model could not be asked: {error.message}")
    try:
        async with asyncio.timeout(deadline.left_s):
            answer = (await run.result()).response.content
    except TimeoutError:
        # If canceling fails too, the run ends at its own time limit.
        with suppress(NexusError, TimeoutError):
            async with asyncio.timeout(_CANCELING_S):
                await run.cancel()
        return Reply(execution_id=run.id, failure="the model was late")
    except NexusError as error:
        return Reply(execution_id=run.id, failure=f"the model failed: {error.message}")
    choice = parse_choice(answer, len(lines))
    failure = "" if choice else "the model's answer is not a valid choice"
    return Reply(execution_id=run.id, choice=choice, failure=failure)


async def _start_run(context: Context, task: str, lines: Sequence[str], deadline: Deadline) -> Run:
    # A worker's session has one task. In a chat, memories are chosen for several messages side by side.
    request = context.request
    key = request.agent.session_label if request.depth > 0 else request.request_id
    numbered = "\n".join(f"{number}. {line.removeprefix('- ')}" for number, line in enumerate(lines, start=1))
    assembled = await context.assemble_context(
        session_label=f"meeseeks:{context.automation.name}:{key}",
        task=f"{wrapped('task', task)}\n\n{wrapped('memory_context', numbered)}\n\nWhich of these, if any?",
    )
    assembled.role = "fast"
    assembled.is_brief = True
    # The owner may have edited the role's text in its workspace.
    workspace, package = context.workspace, __package__ or ""
    assembled.role_context = await asyncio.to_thread(
        lambda: workspace.role if workspace else role_text(package)
    )
    assembled.tools = tuple(name for name in assembled.tools if name == "recall")
    assembled.max_turns = _TURNS
    assembled.timeout_ms = max(1, round(deadline.left_ms))
    return await context.start_execution(assembled)


async def format_items(ledgers: Ledgers, items: list[Item]) -> str:
    """Format the items that are injected as lines, each with who said it."""
    speakers = await batches.speakers_behind(ledgers, [item.id for item in items])
    return format_memories(items, speakers)


def parse_choice(answer: str, offered: int) -> Choice | None:
    """Parse the last line of an answer; None unless it lists only ids and numbers that were offered."""
    last = next((line.strip() for line in reversed(answer.splitlines()) if line.strip()), "")
    if _NO_CHOICE.fullmatch(last.strip("`'\".* ")):
        return Choice()
    words = [word for word in _SEPARATORS.split(last) if word]
    if not words or not all(_CHOICE.fullmatch(word) for word in words):
        return None
    numbers = [int(word) for word in words if word.isdigit()]
    if any(not 1 <= number <= offered for number in numbers):
        return None
    return Choice(
        numbers=tuple(dict.fromkeys(numbers)),
        ids=tuple(dict.fromkeys(word for word in words if not word.isdigit())),
    )


def _clip(item: Item) -> Item:
    """Shorten an item to as much as a model needs to see whether it matters."""
    is_long = len(item.text) > _OFFERED_CHARACTERS
    return replace(item, text=f"{item.text[:_OFFERED_CHARACTERS]}…") if is_long else item
