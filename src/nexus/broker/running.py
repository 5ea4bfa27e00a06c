"""One run of an agent, from its turn in the queue to its end: what the session queue runs as `agent`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nexus.broker.agent import loop
from nexus.broker.agent import messages as stored_messages
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import Limits
from nexus.broker.dispatch import Dispatcher
from nexus.broker.journal import LedgerJournal
from nexus.broker.queue import Turn
from nexus.broker.results import Response, Result
from nexus.broker.streams import Stream, Streams
from nexus.broker.tools import Call, Context, Sandbox, Tool
from nexus.broker.tools import Grant as SandboxGrant
from nexus.config import Config
from nexus.context import AssembledContext
from nexus.errors import AgentError, NexusError, ToolError
from nexus.ledgers.agents import history, turns
from nexus.ledgers.agents.messages import StoredMessage
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.runtime import requests
from nexus.request import Access, Request

WORK = "agent"
"""The name under which runs are stored: it must outlive an upgrade."""

BeforeWorker = Callable[[Request, AssembledContext], Awaitable[None]]
"""Called with a worker's context before its run begins; it may change the context."""
AfterRun = Callable[[Request, AssembledContext, Result], Awaitable[None]]
"""Called when a run has its answer, before the run ends. After a crash it may be called again."""


async def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the rooms above do around runs."""

    before_worker: BeforeWorker = _nothing
    after_run: AfterRun = _nothing


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What every run of a home uses."""

    config: Config
    models: Models
    streams: Streams
    tools: Mapping[str, Tool]
    hooks: Hooks
    workers: Dispatcher


class AgentRun:
    """One run. Made anew when the run is repeated after a crash."""

    def __init__(self, parts: Parts, turn: Turn) -> None:
        self._parts = parts
        self._turn = turn
        self._ledgers = turn.ledgers

    async def __call__(self) -> dict[str, Any]:
        request = await requests.restore(self._ledgers, self._turn.execution.request_id)
        if request is None:
            raise AgentError("The request of this run was forgotten")
        context = await self._context(request)
        opened = await self._opened(request, context)
        stream = self._parts.streams.open(self._turn.execution.id)
        try:
            result = await self._answer(request, context, opened, stream)
            await self._parts.hooks.after_run(request, context, result)
        except asyncio.CancelledError:
            await self._stopped(request, context, opened, stream)
            raise
        except Exception as error:
            known = error if isinstance(error, NexusError) else AgentError(_told(error))
            text = self._parts.models.redact(str(known))
            await self._ended(request, context, opened, "failed", text)
            self._parts.streams.finish(self._turn.execution.id, stream)
            if known is error:
                raise
            raise known from None
        await self._ended(request, context, opened, "done", result.response.content)
        self._parts.streams.finish(self._turn.execution.id, stream)
        return result.to_json()

    async def _context(self, request: Request) -> AssembledContext:
        first, *others = [AssembledContext.from_json(input_["context"]) for input_ in self._turn.inputs]
        for other in others:
            first.current_message = f"{first.current_message}\n\n{other.current_message}"
        if first.role != "worker":
            return first

        async def prepared() -> dict[str, Any]:
            await self._parts.hooks.before_worker(request, first)
            return first.to_json()

        return AssembledContext.from_json(await self._turn.step("worker:pre_execution", prepared))

    async def _opened(self, request: Request, context: AssembledContext) -> OpenTurn:
        return await self._ledgers.agents.write(
            partial(
                turns.begin,
                session_label=context.session_label,
                execution_id=self._turn.execution.id,
                request_id=request.request_id,
                role=context.role,
                thread_id=request.event.thread_id,
                fork_of=context.fork_of,
            )
        )

    async def _answer(
        self, request: Request, context: AssembledContext, opened: OpenTurn, stream: Stream
    ) -> Result:
        execution_id = self._turn.execution.id
        journal = LedgerJournal(
            self._ledgers,
            request,
            opened,
            execution_id=execution_id,
            role=context.role,
            event_id=context.event_id,
        )
        before = await self._ledgers.agents.read(partial(history.before, turn=opened))
        job = loop.Job(
            execution_id=execution_id,
            step=self._turn.step,
            system_prompt=context.system_prompt,
            prompt=context.user_turn(),
            history=[_exact(message) for message in before.messages],
            tools=self._tools(context),
            models=self._parts.models,
            names=(context.model,) if context.model else self._parts.models.names(context.role),
            limits=_limits(self._parts.config, context),
            journal=journal,
            stream=stream,
            call=partial(self._call, request, context, journal),
            steered=self._steered,
        )
        outcome = await loop.run(job)
        return Result(
            execution_id=execution_id,
            request_id=request.request_id,
            response=Response(content=outcome.text, model=outcome.model),
            usage=await journal.used(),
        )

    def _tools(self, context: AssembledContext) -> Sequence[Tool]:
        return [self._parts.tools[name] for name in context.tools if name in self._parts.tools]

    async def _steered(self) -> list[str]:
        said = [AssembledContext.from_json(input_["context"]) for input_ in await self._turn.steered()]
        return [context.user_turn() for context in said]

    async def _call(
        self,
        request: Request,
        context: AssembledContext,
        journal: LedgerJournal,
        tool: Tool,
        arguments: Mapping[str, Any],
        call_id: str,
    ) -> str:
        if not request.access.may_call(tool.name):
            raise ToolError(
                f"`{tool.name}` may not be used here", hint="Do without it, or say why it is needed."
            )
        call = Call(
            request=request,
            execution_id=self._turn.execution.id,
            session_label=context.session_label,
            key=journal.key(call_id),
        )
        return await tool.call(arguments, _tool_context(request.access, call, self._parts.workers))

    async def _stopped(
        self, request: Request, context: AssembledContext, opened: OpenTurn, stream: Stream
    ) -> None:
        """Cancelled, or moved: a run that goes on elsewhere leaves everything open."""
        reason = self._turn.context.entry.reason
        if reason != "cancelled" and reason != "timeout":
            stream.close()
            return
        await self._ended(request, context, opened, "cancelled", "It was cancelled.")
        self._parts.streams.finish(self._turn.execution.id, stream)

    async def _ended(
        self,
        request: Request,
        context: AssembledContext,
        opened: OpenTurn,
        status: Literal["done", "failed", "cancelled"],
        text: str,
    ) -> None:
        """Record the end where it belongs, the worker's result among it, before the run itself ends."""
        error = None if status == "done" else text
        await self._ledgers.agents.write(partial(turns.end, turn_id=opened.id, status=status, error=error))
        workers, execution_id = self._parts.workers, self._turn.execution.id
        if status == "failed":
            await workers.release(execution_id)
        if status == "cancelled" or request.depth > 0:
            await workers.abandon(execution_id)
        if context.session_label != request.agent.session_label:
            return
        if request.depth > 0:
            await workers.deliver(request.request_id, status, text)
        if not await workers.any_running(execution_id):
            end = partial(requests.end, request_id=request.request_id, status=status, error=error)
            await self._ledgers.runtime.write(end)


def _exact(message: StoredMessage) -> str:
    return message.parts_json or stored_messages.noted(message.content)


def _limits(config: Config, context: AssembledContext) -> Limits:
    agents = config.agents
    return Limits(
        max_turns=context.max_turns or agents.max_turns,
        timeout_ms=context.timeout_ms or agents.timeout_ms,
        max_requests=agents.max_requests,
        max_tokens=agents.max_tokens,
        max_cost_usd=agents.max_cost_usd,
    )


def _tool_context(access: Access, call: Call, workers: Dispatcher) -> Context:
    grants = tuple(
        SandboxGrant(path=Path(grant.path), writable=grant.writable) for grant in access.directories
    )
    # Relative paths start in the first directory that can be written to, as a person would expect.
    first = next((grant.path for grant in grants if grant.writable), grants[0].path if grants else Path("/"))
    sandbox = Sandbox(grants=grants, network=access.network)
    return Context(sandbox=sandbox, directory=first, call=call, workers=workers)


def _told(error: Exception) -> str:
    return f"Something went wrong inside: {type(error).__name__}: {error}"
