"""What a reminder does when it is due: it says its text, or has the agent answer it, where it was made."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final

from nexus import clock
from nexus.automations import when
from nexus.automations.context import Context
from nexus.pipeline.incoming import Incoming

LATE: Final = "late"
"""The enrichment of a request whose moment was missed and is made up for."""
Accept = Callable[[Incoming], Awaitable[object]]
"""Takes in a message as a channel hands it over."""
IsOwners = Callable[[str, str], bool]
"""Whether an address on a channel is the owner's, by the settings."""


class Reminding:
    """The code of every reminder."""

    def __init__(self, accept: Accept, is_owners: IsOwners) -> None:
        self._accept = accept
        self._is_owners = is_owners

    async def __call__(self, ctx: Context) -> dict[str, Any] | None:
        given, triggers = ctx.config, ctx.automation.triggers
        text = str(given["text"])
        late = ""
        if ctx.request.enrichment.get(LATE):
            due = when.format_moment(_due(ctx), str(triggers.get("zone", "UTC")))
            late = f"due {due}, delivered late because Nexus was not running"
        if not given.get("asks"):
            return {"response": f"{text}\n\n({late[:1].upper()}{late[1:]}.)" if late else text}
        scheduled = ", ".join(filter(None, (when.describe(triggers), late)))
        channel, address = str(given["channel"]), str(given.get("address") or "")
        was_owner = bool(given["is_owner"])
        is_owner = was_owner and self._is_owners(channel, address)
        await self._accept(
            Incoming(
                channel=channel,
                content=f"[Scheduled: {scheduled}] {text}",
                # The address gets the answer, where a channel sends one to it.
                sender=address or str(given["sender"]),
                thread=str(given["thread"]),
                session_label=str(given["session"]),
                # Who made it is on record from the server's side; what they may reach is looked up anew.
                is_owner=is_owner,
                is_group=bool(given.get("is_group")),
                # Whoever is the owner no longer didn't write just now: they are not told a code.
                wants_answer=is_owner or not was_owner,
                is_scheduled=True,
                # An invocation that a crash cut short is run again, and asks the same question.
                external_id=ctx.invocation_id,
            )
        )
        return None


def _due(ctx: Context) -> datetime:
    return clock.parse(ctx.request.event.content)
