"""What an automation is handed, in this process and in a script's own, and what hook points fire with."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Unpack

from nexus import clock
from nexus.automations.workspace import Workspace
from nexus.context import AssembledContext
from nexus.context.wrapping import wrapped
from nexus.errors import AutomationError
from nexus.ledgers.runtime.automations import Automation
from nexus.memory.recall.item import Matches, Options, Query, list_options
from nexus.request import Access, Agent, Event, Grant, Request, Stage
from nexus.runs import Answer, Result


def request_to_json(request: Request) -> dict[str, Any]:
    """The whole request, rights and enrichment included."""
    tools = request.access.tools
    access = {**asdict(request.access), "tools": None if tools is None else sorted(tools)}
    return {**asdict(request), "access": access}


def request_from_json(value: dict[str, Any]) -> Request:
    """The request again. Whatever is not said about its rights is not allowed."""
    access: dict[str, Any] = dict(value["access"])
    access["tools"] = None if access["tools"] is None else frozenset(access["tools"])
    access["sessions"] = tuple(access["sessions"])
    access["directories"] = tuple(Grant(**grant) for grant in access["directories"])
    fields: dict[str, Any] = {
        **value,
        "event": Event(**value["event"]),
        "agent": Agent(**value["agent"]),
        "access": Access(**access),
        "trace": [Stage(**stage) for stage in value["trace"]],
    }
    return Request(**fields)


class Run(Protocol):
    """An agent's work on one turn, as an automation follows it: without the stream of a `nexus.Run`."""

    @property
    def id(self) -> str: ...

    async def result(self) -> Result: ...

    async def cancel(self) -> object: ...


class Services(Protocol):
    """What the layers below do for an automation, always on behalf of its request."""

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext: ...

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        """Start a run. `access`, what its tools reach, is for code of the program; a script cannot say it."""
        ...

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches: ...


class NoServices:
    """Where nothing below was handed in: an automation that needs an agent is told so."""

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        raise _missing("assemble a context")

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        raise _missing("run an agent")

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        raise _missing("recall anything")


def _missing(what: str) -> AutomationError:
    return AutomationError(f"Nothing here can {what}", hint="Run it where the home is served.")


@dataclass(kw_only=True)
class Context:
    """One invocation, as the automation's code sees it."""

    request: Request
    """The request itself. In a script's own process it is a copy: what it wants to add, it returns."""
    automation: Automation
    hook_point: str
    invocation_id: str
    workspace: Workspace | None = None
    assembled: AssembledContext | None = None
    """At hook points that have one. Code in this process may change it; a script returns `enrich`."""
    result: Result | None = None
    """After an agent's turn: what came of it."""
    services: Services = field(default_factory=NoServices)
    timeout_ms: float = 0.0
    """How long it may take."""
    time_limit: asyncio.Timeout | None = None
    """None in a script's own process."""
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("nexus.automation"))
    now: clock.Clock = clock.now

    def take(self, timeout_ms: float) -> None:
        """Let this invocation take that long from now on, whatever its time-out. In this process only."""
        if self.time_limit is not None:
            self.timeout_ms = timeout_ms
            self.time_limit.reschedule(asyncio.get_running_loop().time() + timeout_ms / 1000)

    @property
    def answer(self) -> Answer:
        """The answer, at hook points that come after it; an error at the others."""
        if self.result is None:
            raise AutomationError(
                f"There is no answer at {self.hook_point}", hint="Register it at `before:deliverResponse`."
            )
        return Answer(self.result.response.content, self.result.response.withheld)

    @property
    def config(self) -> dict[str, Any]:
        """The automation's own settings."""
        return self.automation.config

    @property
    def files(self) -> Workspace:
        """Its workspace; an error that says what to do, where it has none."""
        if self.workspace is None:
            raise AutomationError("It has no workspace", hint="Register it with `--workspace`.")
        return self.workspace

    async def assemble_context(
        self, *, session_label: str = "", task: str, fork: bool = False
    ) -> AssembledContext:
        """The context of a run in a session of its own, on this request's account.

        With `fork` the session begins with the whole conversation of the request, up to and including the
        turn that `result` is of, and the model reads it from its cache. A fork is made once, so its label
        ends with the turn's id. Without a label the session is named after automation and conversation.
        """
        parent = self.result.session_label if self.result else self.request.agent.session_label
        label = session_label or f"meeseeks:{self.automation.name}:{parent}"
        if not fork:
            return await self.services.assemble_context(self.request, label, task)
        through = self.result.execution_id if self.result else None
        end = f":{through or self.request.request_id}"
        label = label if label.endswith(end) else f"{label}{end}"
        assembled = await self.services.assemble_context(self.request, label, task, fork_of=parent)
        assembled.fork_of, assembled.fork_through = parent, through
        return assembled

    async def start_execution(self, assembled: AssembledContext, *, session_label: str | None = None) -> Run:
        """Queue a run and return it immediately; `await run.result()` waits for it."""
        assembled.session_label = session_label or assembled.session_label
        return await self.services.start_execution(self.request, assembled)

    async def ask(
        self,
        task: str,
        *,
        about: Mapping[str, str] | None = None,
        session: str = "",
        model: str = "",
        tools: Sequence[str] = (),
    ) -> str:
        """What an agent answers, in the role of the workspace and a session of its own.

        `about` holds what others wrote, by a name for each: it is shown as data, and not as part of the task.
        The agent has no tools but those that are named, so what it reads cannot make it do anything.
        """
        label = f"meeseeks:{self.automation.name}:{session or self.request.request_id}"
        shown = [wrapped(name, text) for name, text in (about or {}).items()]
        assembled = await self.assemble_context(session_label=label, task="\n\n".join((task, *shown)))
        assembled.role_context = "\n\n".join((self.files.role, self.files.skills))
        assembled.model, assembled.tools = model, tuple(tools)
        run = await self.start_execution(assembled)
        return (await run.result()).response.content.strip()

    async def recall(self, query: str | Query, **options: Unpack[Options]) -> Matches:
        """Find what the sender of the request may know about a question, best first. No model is called."""
        text, given = list_options(query, options)
        return await self.services.recall(self.request, text, given)


Handler = Callable[[Context], Awaitable[Any] | Any]
"""An automation's code: `async def run(ctx)` or `def run(ctx)`."""


@dataclass(kw_only=True)
class Occasion:
    """The request, and what there is beside it at that moment."""

    request: Request
    assembled: AssembledContext | None = None
    result: Result | None = None
    key: str | None = None
    """An id that stays the same when the occasion is repeated after a crash: async automations that were
    asked for then are not asked for again, and what others sent then is not sent again."""

    def change_answer(self, text: str | None) -> None:
        """Let the automations that run next see the answer as it was changed."""
        if self.result is not None and text is not None:
            self.result = replace(self.result, response=replace(self.result.response, content=text))

    def to_json(self) -> dict[str, Any]:
        return {
            "request": request_to_json(self.request),
            "assembled": self.assembled and self.assembled.to_json(),
            "result": self.result and self.result.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Occasion":
        assembled, result = value["assembled"], value["result"]
        return cls(
            request=request_from_json(value["request"]),
            assembled=assembled and AssembledContext.from_json(assembled),
            result=result and Result.from_json(result),
        )
