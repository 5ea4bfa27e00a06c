"""Consolidation: facts become observations, in batches that a model reads and the server checks."""

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from nexus import clock, ids
from nexus.broker.agent.roles import models_of
from nexus.context.wrapping import wrapped
from nexus.errors import ConfigError, UnusableAnswerError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import requests
from nexus.ledgers.sql import rows
from nexus.memory.conclusions import batches, observations, support
from nexus.memory.conclusions.batches import SQL, Batch, Limits
from nexus.memory.conclusions.observations import Conclusions, Draft
from nexus.request import Agent, Event, Request
from nexus.roles import runs
from nexus.roles.services import load_role
from nexus.text import join_lines

if TYPE_CHECKING:
    from nexus.config import Config
    from nexus.context import AssembledContext
    from nexus.engine import WorkContext
    from nexus.roles.services import Services


ROLE: Final = "consolidation"
# A conversation goes on: what was just learned may be corrected in the next message.
SETTLED: Final = timedelta(minutes=10)
_TURNS: Final = 2
_TIMEOUT_MS: Final = 180_000
# So often no model answers before it is taken for an outage, in which nothing is the batch's fault.
_OUTAGE: Final = 3
_BYTES_PER_TOKEN = 4
_LOG: Final = logging.getLogger(__name__)


Part = tuple[str | None, list[str]]
"""Facts of a batch that are tried again, and the message that taught them."""
_LONGEST_CONCLUSION: Final = 2_000
_OBSERVATION_LABEL: Final = re.compile(r"O([1-9][0-9]*)")


async def write_task(ledgers: Ledgers, batch: Batch, now: clock.Clock = clock.now) -> str:
    """Write the message of a batch. What was forgotten since it was chosen has no line."""
    shown, labels = await load_shown(ledgers, batch), batch.labels
    new = [f"{labels[id_]}. {shown.facts[id_]}" for id_ in batch.fact_ids if id_ in shown.facts]
    known = [f"{labels[id_]}. {shown.facts[id_]}" for id_ in batch.known_ids if id_ in shown.facts]
    concluded = list(shown.observations.values())
    parts = [
        wrapped("new_facts", "\n".join(new)),
        wrapped("known_facts", "\n".join(known)) if known else "",
        wrapped("observations", "\n".join(concluded)) if concluded else "",
        f"Today is {now():%Y-%m-%d}. Answer with the JSON object.",
    ]
    return "\n\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Shown:
    """The lines of a batch by the ids of facts and observations."""

    facts: dict[str, str]
    observations: dict[str, str]


async def load_shown(ledgers: Ledgers, batch: Batch) -> Shown:
    """Load what a batch shows, as far as it was not forgotten."""
    return Shown(await _load_facts(ledgers, batch.shown_ids), await _load_observations(ledgers, batch))


async def _load_facts(ledgers: Ledgers, ids: Sequence[str]) -> dict[str, str]:
    found = await ledgers.memory.read(rows, SQL["facts"], (json.dumps(list(ids)),))
    names = await batches.roots_of_entities(ledgers, [row[3] for row in found if row[3]])
    said = await batches.speakers_behind(ledgers, ids)
    return {row[0]: _format_fact(row, names.get(row[3], ("", ""))[1], said.get(row[0])) for row in found}


def _format_fact(row: tuple[Any, ...], about: str, speaker: str | None) -> str:
    _, fact, at, _, confidence, source_type = row
    notes = [source_type, *([f"said by {speaker}"] if speaker else [])]
    notes += [f"confidence {confidence:.1f}"] if confidence < 1 else []
    notes += [f"about {about}"] if about else []
    return f"[{at[:10]}] {join_lines(fact)} ({', '.join(notes)})"


async def _load_observations(ledgers: Ledgers, batch: Batch) -> dict[str, str]:
    wanted, labels = (json.dumps(batch.observation_ids),), batch.labels
    found = {row[0]: row for row in await ledgers.memory.read(rows, SQL["observations"], wanted)}
    lines: dict[str, str] = {}
    for place, id_ in enumerate(batch.observation_ids, start=1):
        if id_ in found:
            _, content, made_at, _, evidence = found[id_]
            shown = sorted(labels[fact] for fact in json.loads(evidence) if fact in labels)
            rests = f"; rests on {', '.join(shown)}" if shown else ""
            lines[id_] = f"O{place}. {join_lines(content)} (concluded {made_at[:10]}{rests})"
    return lines


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The conclusions of an answer, and what of it was refused or put right."""

    conclusions: Conclusions
    refused: tuple[str, ...] = ()
    """Why each observation was refused that was. Its facts are kept as they are."""
    repaired: int = 0


def read_answer(text: str, batch: Batch, shown: "Shown | None" = None) -> Reading:
    """Read the conclusions of an answer; an error says what is wrong with one that can't be used at all.

    With what the batch showed, each name and number must stand in what is cited. A citation that is off is
    put right if exactly one fact fits; otherwise the observation is refused, and the rest is used.
    """
    answer = _parse_object(text)
    given = answer.get("observations", [])
    if not isinstance(given, list):
        raise UnusableAnswerError("`observations` is not a list")
    drafts = tuple(_parse_draft(each, batch) for each in cast("list[object]", given))
    revised = [draft.revises for draft in drafts if draft.revises]
    if len(set(revised)) < len(revised):
        raise UnusableAnswerError("One observation is revised twice")
    named = {id_ for draft in drafts for id_ in draft.fact_ids}
    nothing = _parse_facts(answer.get("nothing_new", []), batch)
    if not {*named, *nothing}.intersection(batch.fact_ids):
        raise UnusableAnswerError("The answer names none of the new facts")
    checked = [(draft, draft if shown is None else _support_draft(draft, shown)) for draft in drafts]
    taken = tuple(draft for _, draft in checked if draft is not None)
    cited = {id_ for draft in taken for id_ in draft.fact_ids}
    skipped = tuple(id_ for id_ in batch.fact_ids if id_ in {*named, *nothing} and id_ not in cited)
    return Reading(
        conclusions=Conclusions(drafts=taken, skipped=skipped),
        refused=tuple(_explain_refusal(draft, shown) for draft, kept in checked if kept is None and shown),
        repaired=sum(kept is not None and kept.fact_ids != draft.fact_ids for draft, kept in checked),
    )


def _support_draft(draft: Draft, shown: "Shown") -> Draft | None:
    """Give a draft citations that support it; None if nothing shown says what it says."""
    if support.copies_placeholder(draft.text):
        return None
    beside = [shown.observations[draft.revises]] if draft.revises in shown.observations else []
    right = support.repair_citations(draft.text, draft.fact_ids, shown.facts, beside)
    return None if right is None else replace(draft, fact_ids=right.fact_ids)


def _explain_refusal(draft: Draft, shown: "Shown") -> str:
    missing = support.find_unsupported(draft.text, (shown.facts.get(id_, "") for id_ in draft.fact_ids))
    return f"{', '.join(sorted(missing)) or 'a placeholder'} not in what is cited"


def _parse_object(text: str) -> Mapping[str, Any]:
    """Parse the JSON object in an answer, despite words around it or a fence."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found: object = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError) as error:
        raise UnusableAnswerError(f"The answer is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnusableAnswerError("The answer holds no JSON object")
    return cast("dict[str, Any]", found)


def _parse_draft(given: object, batch: Batch) -> Draft:
    if not isinstance(given, dict):
        raise UnusableAnswerError("An observation is not an object")
    fields = cast("dict[str, object]", given)
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UnusableAnswerError("An observation has no text")
    if len(text) > _LONGEST_CONCLUSION:
        raise UnusableAnswerError(f"An observation is longer than {_LONGEST_CONCLUSION} characters")
    facts = _parse_facts(fields.get("facts"), batch)
    if not facts:
        raise UnusableAnswerError("An observation cites no fact")
    return Draft(text=join_lines(text), fact_ids=facts, revises=_parse_revision(fields.get("revises"), batch))


def _parse_facts(names: object, batch: Batch) -> tuple[str, ...]:
    """Parse short names of facts. A number, which older prompts gave them, is a place in the list, from 1."""
    shown = batch.shown_ids
    named = {label.upper(): id_ for id_, label in batch.labels.items()}
    listed = cast("list[object]", names) if isinstance(names, list) else [None]
    found: list[str] = []
    for name in listed:
        if isinstance(name, str) and name.strip(" []").upper() in named:
            found.append(named[name.strip(" []").upper()])
        elif type(name) is int and 1 <= name <= len(shown):
            found.append(shown[name - 1])
        else:
            raise UnusableAnswerError(f"{name!r:.40} is not the name of a fact that was shown")
    return tuple(dict.fromkeys(found))


def _parse_revision(name: object, batch: Batch) -> str | None:
    if name in (None, ""):
        return None
    named = _OBSERVATION_LABEL.fullmatch(name) if isinstance(name, str) else None
    if named is None or int(named[1]) > len(batch.observation_ids):
        raise UnusableAnswerError(f"{name!r:.40} is not an observation that was shown")
    return batch.observation_ids[int(named[1]) - 1]


@dataclass(kw_only=True)
class Report:
    """What one run did, in numbers: the engine keeps it, and keeps no content."""

    batches: int = 0
    facts: int = 0
    added: int = 0
    revised: int = 0
    confirmed: int = 0
    set_aside: int = 0
    refused: int = 0
    """Observations that said what the facts that they cite do not say."""
    stopped: str = ""
    """Why it ended before everything was done; empty where all was."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def explain_off(config: "Config") -> str:
    """Say why nothing is consolidated; empty if it is."""
    try:
        models_of(config.models, ROLE)
    except ConfigError as error:
        return error.message
    return ""


def limits_of(config: "Config") -> Limits:
    """Return how large a batch may be."""
    return Limits(facts=config.memory.consolidation_facts, tokens=config.memory.consolidation_tokens)


@dataclass(kw_only=True)
class Consolidation:
    """One run under way."""

    services: "Services"
    context: "WorkContext"
    until: str
    report: Report = field(default_factory=Report)
    _queue: deque[Part] = field(default_factory=deque[Part])
    _left: set[str] = field(default_factory=set[str])
    """Facts that were tried in this run and wait on."""
    _after_seq: int = 0
    _outages: int = 0

    async def __call__(self) -> Report:
        while not self.report.stopped:
            batch = await self._choose_next()
            if batch is None:
                break
            self.report.batches += 1
            await self._consolidate(batch)
        return self.report

    async def _choose_next(self) -> Batch | None:
        part = self._queue.popleft() if self._queue else None
        given = await self.context.step("next", self._find_next, part)
        self._after_seq = given["after_seq"]
        self.report.stopped = given["stopped"]
        return Batch.from_json(given["batch"]) if given["batch"] else None

    async def _find_next(self, part: Part | None) -> dict[str, Any]:
        """Find the next batch, or the limit that ends the run."""
        ledgers, limits = self.services.ledgers, limits_of(self.services.config)
        after_seq = self._after_seq
        if part is not None:
            batch: Batch | None = await batches.complete(ledgers, *part, limits)
        else:
            batch, after_seq = await batches.choose(
                ledgers, limits, until=self.until, after_seq=after_seq, leave=frozenset(self._left)
            )
        stopped = "" if batch is None else await self._find_limit()
        told = batch.to_json() if batch is not None and not stopped else None
        return {"batch": told, "after_seq": after_seq, "stopped": stopped}

    async def _find_limit(self) -> str:
        most = self.services.config.memory.consolidation_batches
        if self.report.batches == most:
            return f"{most} batches are done, the most of one run (consolidation_batches in [memory])"
        return await runs.find_limit(self.services.ledgers, self.services.config.memory)

    async def _consolidate(self, batch: Batch) -> None:
        execution_id = ids.derived("exe", self.context.id, batch.key)
        request = await self._make_request(batch, execution_id)
        if request is None:
            self._left.update(batch.fact_ids)  # its message was forgotten just now
            return
        assembled = await self._assemble(request, batch)
        await batches.note_shown(self.services.ledgers, execution_id, batch.shown)
        result = await runs.run_once(self.services, request, assembled, execution_id)
        if isinstance(result, runs.FailedRun):
            await self._handle_failure(batch, request, result)
        else:
            await self._record_answer(batch, request, execution_id, result.response.content)
        if batch.root_request_id is None:
            await self.services.ledgers.runtime.write(
                requests.end, request_id=request.request_id, status="done"
            )

    async def _make_request(self, batch: Batch, execution_id: str) -> Request | None:
        """Make the request that pays: of the message that taught the facts, or one of its own."""
        if batch.root_request_id is not None:
            return await requests.restore(self.services.ledgers, batch.root_request_id)
        return Request(
            request_id=ids.derived("req", execution_id, ROLE),
            event=Event(content=""),
            agent=Agent(role=ROLE, session_label=ROLE),
        )

    async def _assemble(self, request: Request, batch: Batch) -> "AssembledContext":
        assembled = await self.services.broker.assemble_context(
            request,
            session_label=f"meeseeks:{ROLE}:{batch.key}",
            task=await write_task(self.services.ledgers, batch),
            role=ROLE,
        )
        # Facts are other people's words, and the request may be the owner's: there is nothing to call.
        assembled.tools = ()
        assembled.situation = ""
        assembled.knows_owner = False
        assembled.role_context = await asyncio.to_thread(load_role, self.services.home, ROLE)
        assembled.max_turns = _TURNS
        assembled.timeout_ms = _TIMEOUT_MS
        return assembled

    async def _record_answer(self, batch: Batch, request: Request, execution_id: str, text: str) -> None:
        try:
            reading = read_answer(text, batch, await load_shown(self.services.ledgers, batch))
        except UnusableAnswerError as error:
            await self._split(batch, request, error.message)
            return
        found = reading.conclusions
        for reason in reading.refused:
            _LOG.warning("an observation was refused: %s", reason)
        recorded = await observations.record(
            self.services.ledgers,
            batch,
            found,
            name=execution_id,
            request_id=request.request_id,
            now=clock.timestamp(clock.now()),
        )
        if recorded is None:
            self._left.update(batch.fact_ids)
            return
        named = {id_ for draft in found.drafts for id_ in draft.fact_ids} | set(found.skipped)
        rest = [id_ for id_ in batch.fact_ids if id_ not in named]
        if rest:
            self._queue.append((batch.root_request_id, rest))
        self.report.refused += len(reading.refused)
        self.report.facts += len(batch.fact_ids) - len(rest)
        self.report.added += len(recorded.added)
        self.report.revised += len(recorded.revised)
        self.report.confirmed += len(recorded.confirmed)
        await self.services.memory.note_written("observation", [*recorded.added, *recorded.revised])

    async def _handle_failure(self, batch: Batch, request: Request, failed: runs.FailedRun) -> None:
        if failed.kind == "refused":
            await self._split(batch, request, failed.reason)
            return
        self._outages += failed.kind == "unreachable"
        if failed.kind == "stopped" or self._outages == _OUTAGE:
            self.report.stopped = "no model answers" if failed.kind == "unreachable" else "it was stopped"
        if not self._halve(batch):
            self._left.update(batch.fact_ids)

    async def _split(self, batch: Batch, request: Request, reason: str) -> None:
        """Try it in halves; a fact that fails alone is set aside, where people can see why."""
        if self._halve(batch):
            return
        now = clock.timestamp(clock.now())
        await observations.set_aside(
            self.services.ledgers, batch.fact_ids, reason=reason, request_id=request.request_id, now=now
        )
        self.report.set_aside += len(batch.fact_ids)

    def _halve(self, batch: Batch) -> bool:
        """Queue the halves of a batch; False for one that has only one fact."""
        facts = list(batch.fact_ids)
        middle = (len(facts) + 1) // 2
        self._queue.extend(
            (batch.root_request_id, part) for part in (facts[:middle], facts[middle:]) if facts[1:]
        )
        return len(facts) > 1


async def plan_next_run(ledgers: Ledgers, config: "Config") -> dict[str, Any]:
    """Plan the next run: its batches, what waits, what was set aside and why, and what prevents it."""
    counted = await observations.count_facts(ledgers)
    spent = await runs.sum_spent_today(ledgers)
    return {
        "off": explain_off(config) or await runs.find_limit(ledgers, config.memory),
        "batches": await _plan_batches(ledgers, config),
        **counted,
        "facts_set_aside": await observations.list_set_aside(ledgers),
        "spent_today": {"tokens": spent.tokens, "cost_microusd": spent.cost_microusd},
    }


async def _plan_batches(ledgers: Ledgers, config: "Config") -> list[dict[str, Any]]:
    taken: frozenset[str] = frozenset()
    found: list[dict[str, Any]] = []
    until, after_seq = clock.timestamp(clock.now()), 0
    while len(found) < config.memory.consolidation_batches:
        batch, after_seq = await batches.choose(
            ledgers, limits_of(config), until=until, after_seq=after_seq, leave=taken
        )
        if batch is None:
            break
        taken |= frozenset(batch.fact_ids)
        text = await write_task(ledgers, batch)
        found.append({**batch.to_json(), "tokens": -(-len(text.encode()) // _BYTES_PER_TOKEN)})
    return found
