"""What an answer would have been with other memories: one more call of the model, on the message's account.

The run has a session of its own that forks from the conversation where the message came in, and no tools.
Nothing of it reaches the conversation, the events or the memory.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from nexus import ids
from nexus.automations.runner import wrap_memories
from nexus.broker.broker import Broker
from nexus.broker.run_handle import Run
from nexus.context import AssembledContext, history
from nexus.context.assemble import with_profile
from nexus.errors import AgentError, UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.agents import turns
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.executions import FINAL, Execution
from nexus.memory.profile import newest, versions
from nexus.request import Request
from nexus.roles.memory_injection.formatting import parse_memories

NAME: Final = "experiment"
LABEL: Final = f"meeseeks:{NAME}:"
"""How the sessions of experiments begin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """How a recorded prompt is changed before it is asked again."""

    without: frozenset[str] = frozenset()
    """Ids of memories that are left out, also of the owner profile."""
    memories: str | None = None
    """Lines that take the place of the memories; None: those that it had."""
    profile: str | None = None
    """What takes the place of the owner profile; None: today's."""


async def start(broker: Broker, execution_id: str, variation: Variation) -> Run:
    """Ask the model of a finished run once more, with its prompt changed."""
    execution = await broker.run(execution_id).state()
    if execution.taken_by is not None:
        return await start(broker, execution.taken_by, variation)
    request = await requests.restore(broker.ledgers, execution.request_id)
    if request is None or not request.event.content:
        raise AgentError("The message of this run was deleted")
    given: dict[str, Any] = execution.input or {}
    if execution.status not in FINAL or "context" not in given:
        raise UsageError(f"{execution_id} is no finished answer", hint="Wait until it has ended.")
    context = AssembledContext.from_json(given["context"])
    if context.session_label != request.agent.session_label:
        raise UsageError(f"{execution_id} answered no message", hint="Choose the run that answered.")
    await broker.check_models(context.role, context.model)
    await _vary(broker, request, context, variation)
    await _fork(broker.ledgers, request, context, execution)
    id_ = ids.new("exe")
    context.session_label = f"{LABEL}{id_}"
    return await broker.start_execution(request, context, execution_id=id_)


async def _vary(broker: Broker, request: Request, context: AssembledContext, variation: Variation) -> None:
    before = str(request.enrichment.get("memories") or "")
    block = variation.memories
    if block is None:
        block = _drop_memories(before, variation.without)
    old, new = wrap_memories(before), wrap_memories(block) if block else ""
    if before and old in context.current_message:
        context.current_message = context.current_message.replace(old, new, 1).strip()
    elif new:
        context.prepend(new)
    if not context.system_prompt:
        fresh = await broker.assemble_context(
            request, session_label=context.session_label, task=request.event.content
        )
        context.system_prompt = fresh.system_prompt
    visible = request.access.visibility(request.event.thread_id)
    if context.knows_owner and request.access.level == "owner" and visible.everything:
        profile = variation.profile
        if profile is None:
            profile = await _load_profile(broker, variation.without)
        context.system_prompt = with_profile(context.system_prompt, profile)
    context.knows_owner = False
    context.tools, context.has_tools, context.output_schema = (), False, None
    context.event_id = context.message = context.replaces = None
    context.automation = NAME


def _drop_memories(block: str, without: Collection[str]) -> str:
    return "\n".join(line for line in block.splitlines() if not parse_memories(line).keys() & set(without))


async def _load_profile(broker: Broker, without: Collection[str]) -> str:
    """Load the owner profile of today, without the lines that rest on some facts."""
    text = await broker.profile.text()
    version = await newest(broker.ledgers) if without else None
    if version is None:
        return text
    cited = await versions.citations(broker.ledgers, version.id)
    gone = {each.line for each in cited if each.fact_id in without}
    lines = enumerate(version.content.splitlines(), start=1)
    return "\n".join(line for number, line in lines if number not in gone)


async def _fork(ledgers: Ledgers, request: Request, context: AssembledContext, execution: Execution) -> None:
    """Let the run begin with what the answer began with."""
    opened = await ledgers.agents.read(turns.find, execution_id=execution.id)
    past = opened and await history.load(ledgers, request, execution.session_label, opened)
    context.fork_of = context.fork_through = None
    if past and past.turns:
        context.fork_of, context.fork_through = execution.session_label, past.turns[-1].execution_id
