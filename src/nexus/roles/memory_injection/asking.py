"""Asking the fast model which memories a task needs. It chooses from what is there and never rewrites it."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nexus.automations.context import Context, Run
from nexus.context.wrapping import wrapped
from nexus.errors import NexusError
from nexus.memory.recall.reading import Deadline
from nexus.roles.instructions import role_text

# The first look was taken before it is asked; it may look twice more.
_TURNS: Final = 3
_TOKEN: Final = re.compile(r"\d{1,3}|[a-z]{2,5}_[0-9A-Za-z_-]{3,64}")
_NOTHING: Final = re.compile(r"none|nothing|null|\[\s*\]|0", re.IGNORECASE)
_DECORATION: Final = re.compile(r"[\s,;\[\]\"'`.#*]+|\band\b|(?<!\S)-(?!\S)")
# A run that is stopped after its time has its own end to write down; nobody waits longer for that.
_STOPPING_S: Final = 0.1


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
