"""The injection: recall on the message, a choice by the fast model or the local triage, and the record."""

import asyncio
import hashlib
import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from nexus import ids
from nexus.automations.context import Context
from nexus.ledgers.runtime import injections
from nexus.memory.conclusions import batches
from nexus.memory.languages import cues
from nexus.memory.recall.item import Item, Kind, Matches, kinds
from nexus.memory.recall.reading import Deadline
from nexus.roles.memory_injection import asking, candidates, formatting, triage
from nexus.roles.memory_injection.asking import Choice, Reply
from nexus.roles.memory_injection.candidates import Asked
from nexus.roles.memory_injection.formatting import NOTHING_KNOWN, Known
from nexus.roles.memory_injection.triage import Verdict
from nexus.roles.services import Services

# How many a model is shown.
_SHOWN: Final = 12
_SHOWN_CHARACTERS: Final = 400
# A model is not asked about what is this unlikely to answer anything.
_HOPELESS: Final = 0.02
# Kept from the time for what comes after the model: writing down what was decided, and telling it.
_MARGIN_MS: Final = 400
_RECORDING_S: Final = 0.1
_TIMEOUT_MS: Final = 3_000
_LOG: Final = logging.getLogger(__name__)


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
                about = await candidates.find_task(self._services.ledgers, context.request)
                if await self._is_empty(about):
                    return None
                answer = await candidates.recall_candidates(
                    self._services, context.request, about, _kinds(context)
                )
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
        self._has_memories = self._has_memories or not await candidates.is_empty(
            self._services.ledgers, about
        )
        return not self._has_memories

    async def _find_known(self, context: Context) -> Known:
        """What the conversation holds, and what an automation before this one told."""
        request = context.request
        known = await formatting.find_known(self._services.ledgers, request, request.agent.session_label)
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
        reply = await asking.ask(context, about.task, lines, deadline)
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
