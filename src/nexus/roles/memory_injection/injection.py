"""The injection: recall on the message, a choice by the fast model or the local triage, and the record."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from nexus import ids
from nexus.automations.context import Context, Run
from nexus.context import history
from nexus.context.wrapping import wrapped
from nexus.errors import NexusError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.agents.history import Turn
from nexus.ledgers.memory import reviews
from nexus.ledgers.runtime import injections, requests
from nexus.memory.conclusions import batches
from nexus.memory.languages import cues
from nexus.memory.recall import need
from nexus.memory.recall.item import Item, Kind, Match, Matches, Query, Reasons, kinds
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.selection import token_count
from nexus.request import Request, Visibility
from nexus.roles.instructions import role_text
from nexus.roles.memory_injection import formatting, triage
from nexus.roles.memory_injection.triage import NOTHING_KNOWN, PIN, Known, Verdict
from nexus.roles.services import Services

_ID: Final = re.compile(r"\b[a-z]{3,}_[0-9A-HJKMNP-TV-Z]{26}\b")
# How many a model is shown.
_SHOWN: Final = 12
_SHOWN_CHARACTERS: Final = 400
# A model is not asked about what is this unlikely to answer anything.
_HOPELESS: Final = 0.02
# Kept from the time for what comes after the model: writing down what was decided, and telling it.
_MARGIN_MS: Final = 400
_RECORDING_S: Final = 0.1
_TIMEOUT_MS: Final = 3_000
# How many are judged, and how long recall may take on a machine that has much else to do.
_JUDGED = 60
_JUDGED_TOKENS = 30_000
_RECALL_MS = 1_000
_OPENING_S = 1.0
# A pinned fact about nobody in particular counts where it is among so many of the best.
_NEAR = 10
# The first look was taken before it is asked; it may look twice more.
_TURNS: Final = 3
_TOKEN: Final = re.compile(r"\d{1,3}|[a-z]{2,5}_[0-9A-Za-z_-]{3,64}")
_NOTHING: Final = re.compile(r"none|nothing|null|\[\s*\]|0", re.IGNORECASE)
_DECORATION: Final = re.compile(r"[\s,;\[\]\"'`.#*]+|\band\b|(?<!\S)-(?!\S)")
# A run that is stopped after its time has its own end to write down; nobody waits longer for that.
_STOPPING_S: Final = 0.1
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a request is about: the message that caused it is no memory of it."""

    task: str
    event_id: str | None
    since: str

    def is_new(self, item: Item) -> bool:
        """Whether a message came with the request or after it."""
        return item.kind == "event" and (item.id == self.event_id or item.at >= self.since)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What the model chose: places in the list that it was shown, from 1, and ids that it found itself."""

    numbers: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What came of asking. Without a choice, `failure` says why there is none."""

    execution_id: str | None = None
    choice: Choice | None = None
    failure: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is told, and everything that was looked at for it, in recall's order."""

    items: list[Item]
    verdicts: list[Verdict]
    decided_by: injections.Decider
    execution_id: str | None = None


class Injection:
    """Runs before a task, for whoever is going to do it, and never longer than it may."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._recording: set[asyncio.Task[None]] = set()
        self._has_memories = False
        """Once there is something to recall, it isn't asked again whether there is."""

    async def __call__(self, context: Context) -> dict[str, Any] | None:
        deadline = Deadline((context.automation.timeout_ms or _TIMEOUT_MS) - _MARGIN_MS)
        try:
            async with asyncio.timeout(deadline.left_s):
                about = await find_task(self._services.ledgers, context.request)
                if await self._is_empty(about):
                    return None
                answer = await recall_candidates(self._services, context.request, about, _kinds(context))
                known = await self._find_known(context) if answer and answer.results else NOTHING_KNOWN
        except TimeoutError:
            context.log.warning("recall took too long: the run begins without memories")
            return None
        if answer is None or not answer.results:
            return None
        decision = await self._decide(context, about, answer, known, deadline)
        told = await self._format(decision.items)
        await self._record_soon(context, decision, deadline)
        if not decision.items:
            return None
        # What an automation before this one put there stays.
        before = str(context.request.enrichment.get("memories") or "")
        return {"enrich": {"memories": "\n".join(filter(None, (before, told)))}}

    async def _is_empty(self, about: Asked) -> bool:
        self._has_memories = self._has_memories or not await is_empty(self._services.ledgers, about)
        return not self._has_memories

    async def _find_known(self, context: Context) -> Known:
        """What the conversation holds, and what an automation before this one told."""
        request = context.request
        known = await find_known(self._services.ledgers, request, request.agent.session_label)
        told = formatting.parse_memories(str(request.enrichment.get("memories") or ""))
        return replace(known, item_ids=known.item_ids | told.keys())

    async def _decide(
        self, context: Context, about: Asked, answer: Matches, known: Known, deadline: Deadline
    ) -> Decision:
        verdicts = triage.judge(answer, task=about.task, known=known)
        chosen = [verdict.result.item for verdict in verdicts if verdict.chosen]
        local = Decision(items=chosen, verdicts=_choose_shown(verdicts), decided_by="triage")
        hopeful = answer.answerable >= _HOPELESS and (cues.asks(about.task) or cues.orders(about.task))
        config = self._services.config
        asks_model = config.memory.injection == "model" and bool(config.models.fast)
        if not asks_model or not (chosen or hopeful):
            return local
        shown = [verdict.result.item for verdict in local.verdicts]
        lines = (await self._format([_clip(item) for item in shown])).splitlines()
        reply = await ask(context, about.task, lines, deadline)
        if reply.choice is None:
            context.log.info("%s: the local triage decides", reply.failure)
            return replace(local, execution_id=reply.execution_id)
        return await self._apply_choice(context, about, known, local, reply, reply.choice)

    async def _apply_choice(
        self,
        context: Context,
        about: Asked,
        known: Known,
        local: Decision,
        reply: Reply,
        choice: Choice,
    ) -> Decision:
        """What the model chose, by number or by an id that it found; an id that is not there is left out.

        What may be told, and how much of it, is for the model as for the triage.
        """
        numbered = {
            verdict.result.item.id for verdict in (local.verdicts[number - 1] for number in choice.numbers)
        }
        wanted = numbered | set(choice.ids)
        chosen = [
            verdict
            if verdict.is_final
            else replace(
                verdict,
                chosen=verdict.result.item.id in wanted,
                why="the model chose it" if verdict.result.item.id in wanted else "the model left it out",
            )
            for verdict in local.verdicts
        ]
        verdicts = triage.limit_verdicts(chosen)
        items = [verdict.result.item for verdict in verdicts if verdict.chosen]
        judged = {verdict.result.item.id for verdict in verdicts}
        further = await self._load_items(context, [id_ for id_ in choice.ids if id_ not in judged])
        allowed = [
            item
            for item in further
            if not triage.is_over(item)
            and not about.is_new(item)
            and triage.is_evidence(item, about.task)
            and not known.holds(item)
        ]
        items = triage.choose_fitting([*items, *allowed], max(len(items), triage.LIMITS.most))
        return Decision(items=items, verdicts=verdicts, decided_by="model", execution_id=reply.execution_id)

    async def _load_items(self, context: Context, ids_: list[str]) -> list[Item]:
        request = context.request
        seen = request.access.visibility(request.event.thread_id)
        return await (await self._services.recall(seen)).load_items(ids_) if ids_ and not seen.nothing else []

    async def _format(self, items: list[Item]) -> str:
        said = await batches.speakers_behind(self._services.ledgers, [item.id for item in items])
        return formatting.format_memories(items, said)

    async def _record_soon(self, context: Context, decision: Decision, deadline: Deadline) -> None:
        """Record it; where the ledger is busy, the task does not wait for that."""
        recording = asyncio.create_task(self._record(context, decision))
        self._recording.add(recording)
        recording.add_done_callback(self._log_failure)
        await asyncio.wait({recording}, timeout=max(deadline.left_s, _RECORDING_S))

    def _log_failure(self, recording: asyncio.Task[None]) -> None:
        self._recording.discard(recording)
        if not recording.cancelled() and (error := recording.exception()):
            _LOG.warning("what was injected is not on record: %s", error)

    async def _record(self, context: Context, decision: Decision) -> None:
        rows = [
            _make_row(context, decision, rank, verdict.result.item, verdict)
            for rank, verdict in enumerate(decision.verdicts, start=1)
        ]
        listed = {row.item_id for row in rows}
        further = [item for item in decision.items if item.id not in listed]
        rows += [
            _make_row(context, decision, rank, item, None)
            for rank, item in enumerate(further, start=len(rows) + 1)
        ]
        await self._services.ledgers.runtime.write(injections.add, injections=rows)


def _kinds(context: Context) -> frozenset[Kind]:
    """A registration may narrow what is told, as with `{"scope": "facts,observations"}`."""
    return kinds(context.config.get("scope"))


def _choose_shown(verdicts: list[Verdict]) -> list[Verdict]:
    """What the triage would tell, then the best of the rest, in recall's order."""
    room = _SHOWN - sum(verdict.chosen for verdict in verdicts)
    rest = [verdict for verdict in verdicts if not verdict.chosen and not verdict.is_final]
    kept = {verdict.result.item.id for verdict in rest[: max(0, room)]}
    return [verdict for verdict in verdicts if verdict.chosen or verdict.result.item.id in kept]


def _clip(item: Item) -> Item:
    """As much of it as a model needs to see whether it matters."""
    long = len(item.text) > _SHOWN_CHARACTERS
    return replace(item, text=f"{item.text[:_SHOWN_CHARACTERS]}…") if long else item


def _make_row(
    context: Context, decision: Decision, rank: int, item: Item, verdict: Verdict | None
) -> injections.Injection:
    request = context.request
    return injections.Injection(
        id=ids.new("inj"),
        invocation_id=context.invocation_id,
        request_id=request.request_id,
        root_request_id=request.root_request_id,
        execution_id=decision.execution_id,
        rank=rank,
        item_kind=item.kind,
        item_id=item.id,
        text_sha256=hashlib.sha256(item.text.encode()).hexdigest(),
        score=round(verdict.result.score, 4) if verdict else 0.0,
        probability=round(verdict.result.probability, 4) if verdict else 0.0,
        why=_explain(verdict) if verdict else "the model found it itself and chose it",
        decided_by=decision.decided_by,
        injected=verdict is None or verdict.chosen,
    )


def _explain(verdict: Verdict) -> str:
    found = ", ".join(sorted(verdict.result.reasons.arms))
    return f"{verdict.why} (found by {found})"


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


async def find_known(ledgers: Ledgers, request: Request, session_label: str) -> Known:
    """Find what the history of a session holds for a request, as its agent is going to see it.

    A message that was edited and sent again counts as known: its author took it back.
    """
    past = await history.load(ledgers, request, session_label)
    known = [turn.derive(_named) for turn in past.blocks]
    return Known(
        event_ids=past.taken_back.union(*(each.event_ids for each in known)),
        item_ids=frozenset[str]().union(*(each.item_ids for each in known)),
    )


def _named(turn: Turn) -> Known:
    return Known(
        event_ids=frozenset(message.event_id for message in turn.messages if message.event_id),
        item_ids=frozenset(found for message in turn.messages for found in _ID.findall(message.content)),
    )


async def ask(context: Context, task: str, lines: Sequence[str], deadline: Deadline) -> Reply:
    """Ask through the broker, on the request's account; whatever goes wrong is told, not raised."""
    try:
        async with asyncio.timeout(deadline.left_s):
            run = await _start(context, task, lines, deadline)
    except TimeoutError:
        return Reply(failure="the model could not be asked in time")
    except NexusError as error:
        return Reply(failure=f"the model could not be asked: {error.message}")
    try:
        async with asyncio.timeout(deadline.left_s):
            answer = (await run.result()).response.content
    except TimeoutError:
        await _stop(run)
        return Reply(execution_id=run.id, failure="the model was late")
    except NexusError as error:
        return Reply(execution_id=run.id, failure=f"the model failed: {error.message}")
    choice = parse_choice(answer, len(lines))
    failure = "" if choice else "what the model answered is no choice"
    return Reply(execution_id=run.id, choice=choice, failure=failure)


def parse_choice(answer: str, offered: int) -> Choice | None:
    """Read the last line of an answer; None where it is no list of ids and numbers that were offered."""
    last = next((line.strip() for line in reversed(answer.splitlines()) if line.strip()), "")
    if _NOTHING.fullmatch(last.strip("`'\".* ")):
        return Choice()
    words = [word for word in _DECORATION.split(last) if word]
    if not words or not all(_TOKEN.fullmatch(word) for word in words):
        return None
    numbers = [int(word) for word in words if word.isdigit()]
    if any(not 1 <= number <= offered for number in numbers):
        return None
    return Choice(
        numbers=tuple(dict.fromkeys(numbers)),
        ids=tuple(dict.fromkeys(word for word in words if not word.isdigit())),
    )


async def _start(context: Context, task: str, lines: Sequence[str], deadline: Deadline) -> Run:
    # A worker's session is of one task. A chat's messages get memories side by side, before they queue.
    request = context.request
    about = request.agent.session_label if request.agent.role == "worker" else request.request_id
    label = f"meeseeks:{context.automation.name}:{about}"
    shown = "\n".join(f"{number}. {line.removeprefix('- ')}" for number, line in enumerate(lines, start=1))
    asked = f"{wrapped('task', task)}\n\n{wrapped('memory_context', shown)}\n\nWhich of these, if any?"
    assembled = await context.assemble_context(session_label=label, task=asked)
    assembled.role = "fast"
    assembled.is_brief = True
    assembled.role_context = await asyncio.to_thread(_role, context)
    assembled.tools = tuple(name for name in assembled.tools if name == "recall")
    assembled.max_turns = _TURNS
    assembled.timeout_ms = max(1, round(deadline.left_ms))
    return await context.start_execution(assembled)


def _role(context: Context) -> str:
    """The role as the workspace has it, which a person may have edited."""
    return context.workspace.role if context.workspace else role_text(__package__ or "")


async def _stop(run: Run) -> None:
    """Nobody waits for its answer any more; it ends by its own time limit where it cannot be told."""
    with suppress(NexusError, TimeoutError):
        async with asyncio.timeout(_STOPPING_S):
            await run.cancel()
