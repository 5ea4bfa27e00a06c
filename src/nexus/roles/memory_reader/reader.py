"""The memory reader: before a worker begins, an agent searches the memory in depth for what its task needs.

It works as the writer does, in code mode with the skill folder, and writes nothing but notes for its later
runs. The worker waits for it, so it has three turns and ten seconds.
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nexus.automations.context import Context
from nexus.context.wrapping import wrapped
from nexus.engine.errors import EndedError
from nexus.home import PRIVATE_DIRECTORY
from nexus.memory.writing import Provenance
from nexus.request import Request, Visibility
from nexus.roles import runs, services
from nexus.roles.memory_writer import names
from nexus.roles.services import Services
from nexus.skills.memory import longest_read_ms

SECTIONS = ("Entities", "Relationship History", "Recent Episodes", "Facts")
_NOTHING = "nothing relevant"
_BLOCK = re.compile(r"<memory_context>(.*?)</memory_context>", re.DOTALL)
_HEADING = re.compile(r"^##\s+(.+)$")
_LINE = re.compile(r"^\s*-\s+\S")
_MOST_CHARACTERS = 8_000
NAME = "memory-reader"
ROLE = "reader"
NOTES = "notes"
MAX_TURNS = 3

_TASK = """\
Find in the memory what is relevant to the task below, as your role says. Do not work on the task itself.

{task}{known}"""


def parse_sections(answer: str) -> dict[str, list[str]]:
    """Parse the lines of each section; none if it found nothing or answered in another form."""
    block = _BLOCK.search(answer)
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (block.group(1) if block else answer).splitlines():
        headed = _HEADING.match(line.strip())
        if headed:
            heading = headed.group(1).strip()
        elif _LINE.match(line) and heading.startswith(SECTIONS):
            found.setdefault(heading, []).append(line.rstrip())
    return found


def format_memories(answer: str) -> str:
    """Format what is put before the worker's task; empty if there is nothing."""
    if answer.strip().casefold().strip(" .`") == _NOTHING:
        return ""
    told = [f"## {heading}\n" + "\n".join(lines) for heading, lines in parse_sections(answer).items()]
    return "\n\n".join(told)[:_MOST_CHARACTERS]


def _open_notes(workspace: Path) -> Path | None:
    """Make the folder for its notes if it is missing; None if something else is in its place."""
    notes = workspace / NOTES
    with suppress(FileExistsError):
        notes.mkdir(mode=PRIVATE_DIRECTORY)
    return notes if notes.is_dir() and not notes.is_symlink() else None


class Reader:
    """The automation's code, for one home."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, ctx: Context) -> dict[str, Any] | None:
        request = ctx.request
        visible = request.access.visibility(request.event.thread_id)
        if visible.nothing:
            return None
        found = await self._list_known(request, visible)
        provenance = Provenance(actor=NAME, request_id=request.request_id)
        name = f"{NAME}/{ctx.invocation_id}"
        is_owners = request.access.level == "owner"
        async with runs.open_sandbox(
            self._services, name, provenance, visible=visible, writes=False, in_workspace=is_owners
        ) as place:
            try:
                told = await self._run(ctx, place, found, visible)
            except EndedError as error:
                return {"flag": f"the worker goes on without memories: {error.message}"}
        memories = format_memories(told)
        if memories:
            return {"enrich": {"memories": memories}}
        return {"flag": f"found nothing, though these are known: {'; '.join(found)}"} if found else None

    async def _list_known(self, request: Request, visible: Visibility) -> list[str]:
        """List the entities that the task names, if its principal may see everything."""
        if not visible.everything:
            return []
        named = await asyncio.to_thread(names.find_names, request.event.content)
        return await self._services.ledgers.identity.read(names.list_entities, names=named)

    async def _run(self, ctx: Context, place: Path, found: list[str], visible: Visibility) -> str:
        request, workspace = ctx.request, ctx.workspace
        assert workspace is not None  # noqa: S101 - an invariant, for the reader and the type checker
        is_owners = request.access.level == "owner"
        folders = [workspace.home, *(peer.dir for peer in workspace.peers.values())] if is_owners else []
        notes = await asyncio.to_thread(_open_notes, workspace.home) if is_owners else None
        access = runs.make_access(self._services, place, folders, ledgers=visible.everything, notes=notes)
        shown = "\n\n" + wrapped("known_entities", "\n".join(found)) if found else ""
        assembled = await self._services.broker.assemble_context(
            replace(request, access=access),
            session_label=f"meeseeks:{NAME}:{request.agent.session_label}",
            task=_TASK.format(task=wrapped("task", request.event.content), known=shown),
            role=ROLE,
        )
        assembled.role_context = await asyncio.to_thread(
            services.write_role_context, workspace, NAME, is_owners=is_owners
        )
        assembled.max_turns = MAX_TURNS
        assembled.timeout_ms = ctx.automation.timeout_ms
        assembled.tool_timeout_ms = longest_read_ms(self._services.config.ledgers)
        run = await ctx.services.start_execution(request, assembled, access=access)
        return (await run.result()).response.content
