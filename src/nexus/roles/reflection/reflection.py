"""Answering one question from the memory: it must search first, and cites only what it found."""

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from nexus import clock, ids
from nexus.broker.agent.roles import models_of
from nexus.broker.queue import REFLECTION
from nexus.broker.tools.recall import visible_to
from nexus.broker.tools.tool import Arguments, Tool, parameters
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
from nexus.memory.conclusions import batches, mental_models
from nexus.memory.conclusions.mental_models import MentalModel, NewModel
from nexus.memory.conclusions.support import check_citations
from nexus.memory.writing import Provenance
from nexus.request import Access, Agent, Event, Request
from nexus.results import Reflection, Source
from nexus.roles import runs
from nexus.roles.instructions import load_role
from nexus.roles.reflection import tools

if TYPE_CHECKING:
    from nexus.context import AssembledContext
    from nexus.engine import WorkContext
    from nexus.roles.services import Services

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
        reading = frozenset(tools.NAMES)
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
        assembled.tools = tools.NAMES
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
            tool_calls.results_in, session_label=self._label, tools=tools.NAMES
        )

    async def _make_answer(self, text: str, results: list[str]) -> Reflection:
        cited = check_citations(text, tools.find_retrieved(results))
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
