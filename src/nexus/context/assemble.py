"""Assembling a context: the one way in which a run of an agent gets its prompt."""

import asyncio
from collections.abc import Iterable

from nexus import clock
from nexus.context.assembled import AssembledContext
from nexus.context.prompt import system_prompt
from nexus.context.wrapping import quoted, wrapped
from nexus.home import Home
from nexus.request import Request


async def assemble_context(
    home: Home,
    request: Request,
    *,
    session_label: str,
    task: str,
    tools: Iterable[str],
    role: str | None = None,
    fork_of: str | None = None,
    now: clock.Clock = clock.now,
) -> AssembledContext:
    """The context of one run on behalf of a request.

    The role decides the model; a session may differ from the request's own, as a meeseeks' does.
    """
    return AssembledContext(
        session_label=session_label,
        role=role or request.agent.role,
        system_prompt=await asyncio.to_thread(system_prompt, home),
        tools=tuple(sorted(tools)),
        current_message=_attributed(request, task),
        situation=_situation(request, now),
        event_id=request.event.id if _is_the_message(request, session_label, task) else None,
        fork_of=fork_of,
    )


def _is_the_message(request: Request, session_label: str, task: str) -> bool:
    return session_label == request.agent.session_label and task == request.event.content


def _attributed(request: Request, task: str) -> str:
    """The owner's words are the task, and a worker's task is its own; anybody else's words are quoted."""
    is_quoted = request.parent_request_id is None and request.event.content == task
    if request.access.level == "owner" or not is_quoted:
        return task
    return quoted(task, sender=request.event.sender_id, trust=request.access.level)


def _situation(request: Request, now: clock.Clock) -> str:
    moment = now()
    lines = [f"{moment:%A} {moment:%Y-%m-%d %H:%M} UTC"]
    if request.event.channel:
        lines.append(f"channel: {request.event.channel}")
    granted = [f"{grant.path}{' (writable)' * grant.writable}" for grant in request.access.directories]
    if granted:
        lines.append(f"directories: {', '.join(granted)}")
    return wrapped("situation", "\n".join(lines))
