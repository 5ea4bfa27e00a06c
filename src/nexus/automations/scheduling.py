"""What the `schedule` tool does: reminders and proposals, with the rights of the request it is called for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from nexus.automations import changes, registration, reminders, when
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.reminders import Place, Reminders
from nexus.broker.tools.tool import Arguments, Call, Context, Tool, parameters
from nexus.errors import NexusError, ToolError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import sessions
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.request import Request

AGENT = "nexus"
"""Who made what a call of the tool made."""
OWNER = "owner"
Act = Callable[[Arguments, Call], Awaitable[str]]
"""Does what a call asks for, on behalf of its request."""


def schedule_tool(act: Act) -> Tool:
    """A tool that schedules, for whoever the call is made for."""

    async def run(arguments: Arguments, context: Context) -> str:
        if context.call is None:
            raise ToolError("Nothing can be scheduled here")
        try:
            return await act(arguments, context.call)
        except ToolError:
            raise
        except NexusError as error:
            raise ToolError(error.message, hint=error.hint) from error

    return Tool(
        name="schedule",
        description="Later `say` text or `ask` yourself. When: every Monday at 9.",
        parameters=parameters(
            "op",
            op={"type": "string", "enum": ["say", "ask", "list", "delete", "propose"]},
            when={"type": "string"},
            text={"type": "string"},
        ),
        run=run,
        # A call that is made again saves the same reminder, by its key.
        repeatable=True,
    )


class Scheduling:
    """Carries out the calls of one home's agents."""

    def __init__(self, ledgers: Ledgers, reminders_: Reminders) -> None:
        self._ledgers = ledgers
        self._reminders = reminders_

    async def __call__(self, arguments: Arguments, call: Call) -> str:
        text, at = arguments.get("text", "").strip(), arguments.get("when", "").strip()
        match arguments["op"]:
            case "list":
                return await self._list(call.request)
            case "delete":
                return await self._delete(call.request, text)
            case "propose":
                return await self._propose(call, text, at)
            case op:
                return await self._remind(call, text, at, asks=op == "ask")

    async def _remind(self, call: Call, text: str, at: str, *, asks: bool) -> str:
        if not text or not at:
            raise ToolError("`text` and `when` are needed", hint=f"`when` is such as {when.EXAMPLES}.")
        draft = await self._reminders.read(at, text, asks=asks)
        made = await self._reminders.save(
            draft, await find_place(self._ledgers, call.request), agent=AGENT, key=call.key
        )
        told = " ".join(draft.describe(self._reminders.now()))
        return f"Saved as {made.name}. {told} Tell the person this time with its time zone."

    async def _list(self, request: Request) -> str:
        rows = [
            row
            for row in await self._ledgers.runtime.read(reminders.load_rows)
            if await self._may_see(request, row)
        ]
        now = self._reminders.now()
        lines = [_format_line(row, reminders.describe_row(row, now).when) for row in rows]
        return "\n".join(lines) or "No reminders."

    async def _delete(self, request: Request, name: str) -> str:
        rows = await self._ledgers.runtime.read(reminders.load_rows)
        found = next((row for row in rows if row.name == name), None)
        if found is None or not await self._may_see(request, found):
            raise ToolError(f"No reminder named {name!r:.80}", hint="`text` is a name that `list` shows.")
        await self._reminders.change(found.name, "delete")
        return f"Deleted {found.name}."

    async def _propose(self, call: Call, source: str, at: str) -> str:
        if call.request.access.level != "owner":
            raise ToolError("Only the owner's agent may propose automations")
        if not source or not at:
            return changes.HOW_TO
        place = await find_place(self._ledgers, call.request)
        settings: dict[str, Any] = changes.hook_settings(at) or await self._read_schedule(at, place)
        session = await self._ledgers.agents.read(sessions.get, label=place.session)
        new = NewAutomation(
            name="proposed",
            script_path="",
            script_hash=None,
            created_by_agent=AGENT,
            created_by_session=session and session.id,
            created_by_thread=place.thread_id,
            **settings,
        )
        write = registration.writer(self._ledgers)
        made = await asyncio.to_thread(changes.propose, self._ledgers.home, write, source, new)
        return (
            f"Proposed as {made.name}. It doesn't run until the owner approves it: on its page of the "
            f"dashboard, or with `nexus automations approve {made.name}`. Tell them what it does."
        )

    async def _read_schedule(self, at: str, place: Place) -> dict[str, Any]:
        """The settings of a script that runs at a time, and whose message goes where it was asked for."""
        read = await asyncio.to_thread(when.read, at, self._reminders.now(), await self._reminders.zone())
        return {
            "hook_point": SCHEDULE,
            "blocking": False,
            "triggers": read.triggers,
            "mode": "once" if read.at else "persistent",
            "config": {"channel": place.channel, "thread": place.thread, "session": place.session},
        }

    async def _may_see(self, request: Request, row: Automation) -> bool:
        """The owner's agent sees every reminder; anybody else's those of its own conversation."""
        return request.access.level == "owner" or (
            row.created_by_thread is not None and row.created_by_thread == request.event.thread_id
        )


async def find_place(ledgers: Ledgers, request: Request) -> Place:
    """Where the request's answer goes: what is scheduled arrives there."""
    thread_id = request.event.thread_id
    thread = thread_id and await ledgers.events.read(events.thread, thread_id=thread_id)
    is_owner = request.access.level == "owner"
    sender = OWNER if is_owner else request.event.sender_id
    if not thread or not sender:
        raise ToolError("Nothing can be scheduled here: this conversation has no channel")
    channel, external_id = thread
    own = external_id if request.access.level == "owner" else f"{channel}:{external_id}"
    return Place(
        channel=channel,
        thread=external_id,
        session=own if request.depth else request.agent.session_label,
        sender=sender,
        is_owner=is_owner,
        address=(request.event.sender_id or "") if is_owner else "",
        # What the owner may recall there is cut down where others read along.
        is_group=is_owner and request.access.memory != "all",
        thread_id=thread_id,
    )


def _format_line(row: Automation, due: str) -> str:
    return f"{row.name}: {due} ({reminders.state_of(row)}): {row.config.get('text', '')}"
