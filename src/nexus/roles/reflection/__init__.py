"""Reflection: a question answered from the memory, with sources, and kept as a mental model if so wished."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from nexus import clock, ids
from nexus.broker.agent.roles import models_of
from nexus.broker.queue import REFLECTION
from nexus.broker.tools.recall import moment, require_time, visible_to
from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.broker.tools.tool import Context as ToolContext
from nexus.context.wrapping import wrapped
from nexus.errors import (
    TEMPORARY_LEDGER_ERRORS,
    AgentError,
    ConfigError,
    ModelError,
    NexusError,
    ToolError,
    UnusableAnswerError,
    UsageError,
)
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.runtime import requests, usage
from nexus.memory.conclusions import batches, mental_models, observations
from nexus.memory.conclusions.batches import ShownKind as Level
from nexus.memory.conclusions.mental_models import MentalModel, NewModel
from nexus.memory.conclusions.support import check_citations
from nexus.memory.recall.item import PATIENT_MS, Query
from nexus.memory.writing import Provenance
from nexus.request import Access, Agent, Event, Request
from nexus.results import Reflection, Source
from nexus.roles import runs
from nexus.roles.services import load_role
from nexus.text import join_lines

if TYPE_CHECKING:
    from nexus.context import AssembledContext
    from nexus.engine import WorkContext
    from nexus.memory.recall.item import Item
    from nexus.roles.services import Services

__all__ = ["Asking", "reflect", "refresh"]


_LEVELS: Final[dict[str, Level]] = {
    "search_mental_models": "mental_model",
    "search_observations": "observation",
    "search_facts": "fact",
}
NAMES: Final = tuple(_LEVELS)
_RESULTS: Final = 12
_TOKENS: Final = 4_000
_RETRIEVED: Final = re.compile(r"^- \[([^\]\s]+)\](.*)$", re.MULTILINE)

Run = Callable[[Arguments, Context], Awaitable[str]]


def make_searches(services: "Services") -> list[Tool]:
    """Make the three tools for a home."""
    described = {
        "search_mental_models": "What was concluded about a subject as a whole. Search here first.",
        "search_observations": "What several facts say together about somebody or something.",
        "search_facts": "Single statements with their dates, and the facts that support an observation.",
    }
    return [
        Tool(
            name=name,
            description=described[name],
            parameters=_FACTS if kind == "fact" else _CONCLUSIONS,
            run=_make_search(services, kind),
            repeatable=True,
            reads_memory=True,
        )
        for name, kind in _LEVELS.items()
    ]


def find_retrieved(results: Iterable[str]) -> dict[str, str]:
    """Find everything that some searches returned: the text behind each id at the beginning of a line."""
    return {id_: line for result in results for id_, line in _RETRIEVED.findall(result)}


def _make_search(services: "Services", kind: Level) -> Run:
    async def run(arguments: Arguments, context: Context) -> str:
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        visible = visible_to(context.call.request)
        if "observation" in arguments:
            if not visible.everything:
                raise ToolError("What supports an observation may not be seen on behalf of this request")
            return await _show_evidence(services, context.call.execution_id, arguments["observation"])
        recall = await services.open_recall(visible)
        answer = await recall.find(_make_query(arguments, kind))
        require_time(answer)
        found = [result.item for result in answer.results]
        await batches.note_shown(
            services.ledgers, context.call.execution_id, [(kind, item.id) for item in found]
        )
        return _wrap_lines(_format_item(item) for item in found)

    return run


def _make_query(arguments: Arguments, kind: Level) -> Query:
    return Query(
        text=arguments["query"],
        kinds=frozenset({kind}),
        entity_id=arguments.get("entity"),
        time_after=moment(arguments, "time_after"),
        time_before=moment(arguments, "time_before"),
        max_results=_RESULTS,
        max_tokens=_TOKENS,
        budget="high",
        deadline_ms=PATIENT_MS,
    )


async def _show_evidence(services: "Services", execution_id: str, observation_id: str) -> str:
    found = await observations.load_observation(services.ledgers, observation_id)
    if found is None:
        raise ToolError(f"There is no observation {observation_id:.60}", hint="Give the id of one you found.")
    facts = found["evidence"][-_RESULTS:]
    await batches.note_shown(services.ledgers, execution_id, [("fact", fact["id"]) for fact in facts])
    return _wrap_lines(f"- [{fact['id']}] {fact['at'][:10]} {join_lines(fact['fact'])}" for fact in facts)


def _format_item(item: "Item") -> str:
    by = item.replaced_by or item.outdated_by
    stale = f" ({item.note} [{by.id}])" if by else f" ({item.note})" if item.note else ""
    unsure = f" (confidence {item.confidence:.1f})" if item.confidence < 1 else ""
    return f"- [{item.id}] {item.at[:10]} {join_lines(item.text)}{stale}{unsure}"


def _wrap_lines(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    # What was said is a record of somebody's words, never an instruction to whoever reads it here.
    return wrapped("memory", text) if text else "No matches at this level."


def _describe_text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


_CONCLUSIONS: Final = parameters(
    "query",
    query=_describe_text("What to find, as a question or in its own words."),
    entity=_describe_text("Only what is about this person or thing: its id, or any of its names."),
)
_FACTS: Final = parameters(
    "query",
    query=_describe_text("What to find, as a question or in its own words."),
    entity=_describe_text("Only what is about this person or thing: its id, or any of its names."),
    time_after=_describe_text("Only what is from then on, such as 2026-05-01."),
    time_before=_describe_text("Only before this time."),
    observation=_describe_text("Instead of searching: the facts that support the observation with this id."),
)


ROLE: Final = "reflection"
_TURNS: Final = 16
_TIMEOUT_MS: Final = 300_000
# So old must a version be before it is made anew: something is learned about a busy subject every hour.
_AGE: Final = timedelta(hours=20)
_SENT_BACK: Final = (
    "You answered without searching. What you know of this comes from the memory alone: search it, then "
    "answer, and cite what you found."
)


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How a question is asked: by whom, on whose account, and in which lane."""

    model: str = ""
    """Who answers, as `provider/model`; empty: the models of the role."""
    request: Request | None = None
    """On whose behalf the memory is seen, and whose root pays. None: the owner asks, on its own account."""
    execution_id: str | None = None
    """What the ids of its runs follow from: the same again finds the runs that were begun."""
    background: bool = False
    """Nobody waits for the answer."""
    run_id: str = ""
    """The run that waits for the answer, where an agent asks: it stops with that run."""


OWNER: Final = Asking()


async def reflect(
    services: "Services", question: str, *, save_as: str | None = None, asking: Asking = OWNER
) -> Reflection:
    """Answer a question from the memory.

    With `save_as` the answer is kept as a mental model of that name: as a new version where there is one.
    """
    asked = _Question(services, question, asking)
    found = await asked.answer(question)
    if save_as is None:
        return found
    # Whoever asks on the account of a request chose what was asked and how the answer is called.
    kind = None if asking.request is None else "client"
    return await save_answer(services, found, NewModel(name=save_as, question=question, author_kind=kind))


async def refresh(services: "Services", model_id: str, *, asking: Asking = OWNER) -> Reflection:
    """Ask again what a mental model answers, and keep the answer as its next version."""
    known = await mental_models.load_newest(services.ledgers, model_id)
    asked = _Question(services, known.question, asking)
    found = await asked.answer(_ask_again(known), shown_id=known.id)
    new = NewModel(name=known.name, question=known.question, previous_id=known.id)
    return await save_answer(services, found, new)


async def save_answer(services: "Services", found: Reflection, new: NewModel) -> Reflection:
    """Save an answer as a mental model; an `UnusableAnswerError` where it cites nothing but itself."""
    previous = await mental_models.find_followed(services.ledgers, new)
    sources = tuple((source.kind, source.id) for source in found.sources if source.id != previous)
    if not sources:
        raise UnusableAnswerError(
            "The answer cites nothing but itself, so it is not kept as a mental model"
            if found.sources
            else "The answer cites nothing that was found, so it is not kept as a mental model",
            hint="Ask without keeping it to see the answer.",
        )
    given = {"name": new.name, "question": new.question, "content": found.answer}
    provenance = Provenance(actor=ROLE, kind="automation", request_id=found.request_id)
    await services.memory.check(mental_models.OPERATION, given, provenance)
    id_ = await mental_models.append(
        services.ledgers,
        replace(new, content=found.answer, sources=sources),
        # One request gives one answer.
        id_=ids.derived("mod", found.request_id, "kept"),
        request_id=found.request_id,
        now=clock.timestamp(clock.now()),
    )
    await services.memory.note_written("mental_model", [id_])
    return replace(found, mental_model_id=id_)


def make_reflect_tool(services: "Services") -> Tool:
    """Make the tool by which the owner's agents have a question answered from the memory.

    The reflection is a child of the request that asks, whose root pays for it, and it stops with the run that
    asks. It can call its searches alone, so no reflection asks for another.
    """

    async def run(arguments: Arguments, context: ToolContext) -> str:
        call = context.call
        assert call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        if call.request.access.level != "owner" or not visible_to(call.request).everything:
            raise ToolError("Only agents that work for the owner may reflect", hint="Use `recall` instead.")
        question, name = arguments["question"].strip(), arguments.get("save_as", "").strip()
        if not question:
            raise ToolError("`question` is empty", hint="Ask one question, in full words.")
        # The same call, made again after a restart, finds the reflection that it began.
        base_id = ids.derived("exe", call.execution_id, call.key)
        asking = Asking(request=call.request, execution_id=base_id, run_id=call.execution_id)
        saved = ""
        try:
            found = await reflect(services, question, asking=asking)
            if name:
                try:
                    new = NewModel(name=name, question=question, author_kind="automation")
                    found = await save_answer(services, found, new)
                    saved = f"Saved as the mental model {name!r} ({found.mental_model_id})."
                except (UnusableAnswerError, UsageError) as error:
                    saved = f"Not saved: {error.message}."
        except TEMPORARY_LEDGER_ERRORS:
            raise  # the run is taken back, and goes on when they have passed
        except NexusError as error:
            raise ToolError(error.message, hint=error.hint) from error
        sources = [f"- [{each.id}] {each.at[:10]} {' '.join(each.text.split())}" for each in found.sources]
        # What rests on the memory is as little an instruction as the memory is.
        told = wrapped("memory", "\n".join([found.answer, *(["Sources:"] if sources else []), *sources]))
        return "\n".join(filter(None, (told, saved)))

    return Tool(
        name="reflect",
        description="Research a hard question in the memory; slow.",
        parameters=parameters("question", question={"type": "string"}, save_as={"type": "string"}),
        run=run,
        repeatable=True,
        reads_memory=True,
    )


class _Question:
    """One question under way."""

    def __init__(self, services: "Services", question: str, asking: Asking) -> None:
        self._base_id = asking.execution_id or ids.new("exe")
        self._services = services
        self._question = question
        self._asking = asking
        # The label decides the lane: what somebody waits for is no work for the background.
        kind = "meeseeks:reflection:" if asking.background else "reflect:"
        self._label = (f"{REFLECTION}{asking.run_id}:" if asking.run_id else kind) + self._base_id
        self._request = self._make_request(asking.request)

    async def answer(self, task: str, *, shown_id: str | None = None) -> Reflection:
        """Answer the task, checked. Without any search it is sent back once, and then refused.

        `shown_id` is the mental model that the task tells, if any.
        """
        try:
            text = await self._run(task, "0", shown_id)
            if not await self._load_results():
                text = await self._run(_SENT_BACK, "1", shown_id)
            results = await self._load_results()
            if not results:
                raise UnusableAnswerError(
                    "The model answered twice without searching",
                    hint="Ask again, or set another model as `reflection` in [models] of config.toml.",
                )
            return await self._make_answer(text, results)
        finally:
            await self._services.ledgers.runtime.write(
                requests.end, request_id=self._request.request_id, status="done"
            )

    def _make_request(self, parent: Request | None) -> Request:
        """Make a request of its own: it reaches the memory alone, and no more of it than its parent."""
        agent = Agent(role=ROLE, session_label=ROLE)
        request_id = ids.derived("req", self._base_id, ROLE)
        reading = frozenset(NAMES)
        if parent is None:
            access = Access(level="owner", tools=reading, memory="all")
            return Request(request_id=request_id, event=Event(content=""), agent=agent, access=access)
        child = parent.child(content="", agent=agent)
        access = Access(level=parent.access.level, tools=reading, memory=parent.access.memory)
        return replace(child, request_id=request_id, access=access)

    async def _run(self, task: str, number: str, shown_id: str | None) -> str:
        assembled = await self._assemble(task)
        execution_id = ids.derived("exe", self._base_id, number)
        if shown_id is not None:
            await batches.note_shown(self._services.ledgers, execution_id, [("mental_model", shown_id)])
        result = await runs.run_once(self._services, self._request, assembled, execution_id)
        if isinstance(result, runs.FailedRun):
            kind = ModelError if result.kind == "unreachable" else AgentError
            raise kind(result.reason, hint=f"See `nexus trace {self._request.request_id}`.")
        return result.response.content

    async def _assemble(self, task: str) -> "AssembledContext":
        assembled = await self._services.broker.assemble_context(
            self._request, session_label=self._label, task=task, role=ROLE
        )
        assembled.tools = NAMES
        assembled.role_context = ""
        if task != _SENT_BACK:
            assembled.role_context = await asyncio.to_thread(load_role, self._services.home, ROLE)
        assembled.model = self._asking.model
        assembled.max_turns = _TURNS
        assembled.timeout_ms = _TIMEOUT_MS
        return assembled

    async def _load_results(self) -> list[str]:
        """Load what the searches of this session returned."""
        return await self._services.ledgers.agents.read(
            tool_calls.results_in, session_label=self._label, tools=NAMES
        )

    async def _make_answer(self, text: str, results: list[str]) -> Reflection:
        cited = check_citations(text, find_retrieved(results))
        ledgers = self._services.ledgers
        sources = [Source(**row) for row in await mental_models.load_sources(ledgers, cited.ids)]
        found = {source.id: source for source in sources}
        spent = await ledgers.runtime.read(usage.of_request, request_id=self._request.request_id)
        return Reflection(
            question=self._question,
            answer=cited.text,
            sources=tuple(found[id_] for id_ in cited.ids if id_ in found),
            removed=cited.removed,
            searches=len(results),
            request_id=self._request.request_id,
            usage=spent,
        )


def _ask_again(known: MentalModel) -> str:
    """Write the question once more, beside what was concluded the last time."""
    earlier = wrapped("earlier_answer", known.content, made_at=known.created_at[:10])
    return (
        f"{known.question}\n\n{earlier}\n\nThe earlier answer may be out of date. Search again, "
        "and answer anew: keep what still holds, tell what changed and when."
    )


@dataclass(kw_only=True)
class Report:
    """What one run did, in numbers: the engine keeps it, and keeps no content."""

    refreshed: int = 0
    failed: int = 0
    stopped: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def refresh_stale(services: "Services", context: "WorkContext") -> Report:
    """Refresh stale mental models, within the limits of the settings."""
    report = Report()
    for _ in range(services.config.memory.refreshed_models):
        given = await context.step("next", _find_stale, services)
        report.stopped = given["stopped"]
        if given["model"] is not None:
            await _refresh_one(services, context, given["model"], report)
        if given["model"] is None or report.stopped:
            break
    return report


async def _find_stale(services: "Services") -> dict[str, Any]:
    made_until = clock.timestamp(clock.now() - _AGE)
    found = await mental_models.find_stale(services.ledgers, made_until=made_until, limit=1)
    stopped = (
        (_explain_off(services) or await runs.find_limit(services.ledgers, services.config.memory))
        if found
        else ""
    )
    return {"model": found[0] if found and not stopped else None, "stopped": stopped}


def _explain_off(services: "Services") -> str:
    try:
        models_of(services.config.models, ROLE)
    except ConfigError as error:
        return error.message
    return ""


async def _refresh_one(services: "Services", context: "WorkContext", model_id: str, report: Report) -> None:
    asking = Asking(execution_id=ids.derived("exe", context.id, model_id), background=True)
    try:
        await refresh(services, model_id, asking=asking)
        report.refreshed += 1
    except ModelError:
        report.stopped = "no model answers"
    except NexusError as error:
        # Noted, so that it is not tried again until something newer is known.
        now = clock.timestamp(clock.now())
        await mental_models.note_failure(
            services.ledgers, model_id, reason=error.message, request_id=None, now=now
        )
        report.failed += 1
