"""The agent loop: ask the model, run the tools that it calls, and so on until it has answered.

Every request to a model and every tool call is a step of the run, so a run that is resumed after a crash
goes through the same steps again and finds what came of them in its journal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_ai import Agent, ModelRequestNode
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.native_tools import WebSearchTool
from pydantic_graph import End

from nexus.attachments import Attachment
from nexus.broker.agent import images
from nexus.broker.agent.asking import Asking
from nexus.broker.agent.images import Images, Load, no_bytes
from nexus.broker.agent.models import Models
from nexus.broker.agent.recorded import RecordedModel
from nexus.broker.agent.records import Approve, CallTool, Journal, Limits, Outcome, Step, unasked
from nexus.broker.agent.slots import stopped_time, time_limit_of
from nexus.broker.agent.structured import Form
from nexus.broker.agent.toolset import RecordedTools
from nexus.broker.streams import Stream
from nexus.broker.tools import Tool
from nexus.errors import AgentError, LimitError
from nexus.ledgers.agents.history import Turn

Steered = Callable[[], Awaitable[list[str]]]
"""What was said into the run since it was last asked."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that one run needs."""

    execution_id: str
    step: Step
    system_prompt: str
    prompt: str
    history: Sequence[Turn]
    """What was said before."""
    tools: Sequence[Tool]
    native: frozenset[str] = frozenset()
    """Of the tools, those whose place the provider's own may take: it is never asked before it runs one."""
    models: Models
    names: tuple[str, ...]
    """The models to ask, in order."""
    limits: Limits
    journal: Journal
    stream: Stream
    call: CallTool
    steered: Steered
    approve: Approve = unasked
    images: Sequence[Attachment] = ()
    """What the prompt shows, where the model reads images."""
    load: Load = no_bytes
    """The bytes of an attachment of this conversation; None where it was forgotten."""
    output_schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer is asked to have; its text may still differ from it."""


async def run(job: Job) -> Outcome:
    """Bring a run to its end: its answer, or an AgentError that says why there is none."""
    limit = asyncio.timeout(job.limits.timeout_ms / 1000)

    def extend(seconds: float) -> None:
        until = limit.when()
        limit.reschedule(None if until is None else until + seconds)

    @contextmanager
    def clock_stopped() -> Generator[None]:
        with stopped_time(limit), stopped_time(time_limit_of(job.limits.invocation_id)):
            yield

    requests = 0
    try:
        async with limit:
            asking = Asking(
                candidates=await job.models.candidates(job.names),
                journal=job.journal,
                limits=job.limits,
                stream=job.stream,
                redact=job.models.redact,
                deadline=time.monotonic() + job.limits.timeout_ms / 1000,
                extend=extend,
                knowledge=job.models.knowledge,
                slots=job.models.slots,
                clock_stopped=clock_stopped,
                images=Images(job.load),
                form=None if job.output_schema is None else Form(schema=job.output_schema),
            )
            model = RecordedModel(job.step, asking, job.journal, job.stream, job.history)
            tools = RecordedTools(
                job.tools,
                step=job.step,
                journal=job.journal,
                stream=job.stream,
                call=job.call,
                approve=job.approve,
                waiting=partial(stopped_time, limit),
                max_retries=job.limits.max_turns,
                native=job.native,
            )
            # Wrong calls and empty answers are told to the model; the turns alone bound how often.
            agent = Agent(
                model,
                instructions=job.system_prompt,
                toolsets=[tools],
                retries=job.limits.max_turns,
                # Optional: a model that has none is asked without it.
                capabilities=[NativeTool(WebSearchTool(optional=True))] if job.native else [],
            )
            prompt = images.prompt(job.prompt, job.images)
            # Tool calls are recorded in the order of the answer: their results are taken in that order too.
            with Agent.parallel_tool_call_execution_mode("parallel_ordered_events"):
                async with agent.iter(prompt, run_id=job.execution_id) as going:
                    node = going.next_node
                    while not isinstance(node, End):
                        if isinstance(node, ModelRequestNode):
                            if requests == job.limits.max_turns:
                                raise LimitError(
                                    f"The run made {requests} model calls without finishing",
                                    hint="Raise `max_turns` in [agents] in config.toml.",
                                )
                            if requests and (said := await job.steered()):
                                node.request.parts = [*node.request.parts, *map(UserPromptPart, said)]
                            model.expect(node.request, 2 * requests)
                            requests += 1
                        node = await going.next(node)
    except TimeoutError:
        if not limit.expired():
            raise
        raise LimitError(
            f"The run exceeded {job.limits.timeout_ms} ms",
            hint="Raise `timeout_ms` in [agents] in config.toml.",
        ) from None
    except AgentRunError as error:
        raise AgentError(job.models.redact(f"The run failed: {error}")) from None
    return Outcome(text=node.data.output, requests=requests, messages=2 * requests, model=model.answered_by)
