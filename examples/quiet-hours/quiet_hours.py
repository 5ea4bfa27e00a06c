"""quiet-hours: at night nobody but you gets an answer; in the morning you are told who wrote.

Registered twice: at `runAutomations` it answers others, by the clock it tells you in the morning.
"""

from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from nexus import Context

HELD, TOLD = "held", "told.json"
MOST = 200
URGENT = ("urgent", "emergency")


def run(ctx: Context) -> dict[str, Any] | None:
    return morning(ctx) if ctx.hook_point == "schedule" else night(ctx)


def night(ctx: Context) -> dict[str, Any] | None:
    """Hold what others say at night. You yourself, and what is urgent, get through."""
    said = ctx.request.event.content
    urgent = [str(word).casefold() for word in ctx.config.get("urgent", URGENT)]
    if ctx.request.access.level == "owner" or any(word in said.casefold() for word in urgent):
        return None
    begins, ends = hour(ctx, "from", "22:00"), hour(ctx, "to", "07:00")
    now = ctx.now().astimezone(ZoneInfo(ctx.config.get("zone", "UTC")))
    if not is_quiet(now.time(), begins, ends):
        return None
    if len(ctx.files.list_files(HELD)) < MOST:
        note = {"at": f"{now:%H:%M}", "from": ctx.request.event.sender_id, "said": said[:500]}
        # A file for each message: those that come in at once do not write over each other.
        ctx.files.store(f"{HELD}/{ctx.request.event.id or ctx.request.request_id}.json", note)
    until = f"{ends:%H:%M}"
    return {"handled": True, "response": f"It is night here. I pass this on after {until}."}


def morning(ctx: Context) -> dict[str, Any] | None:
    """Tell what was held, once. What was told is removed the morning after."""
    night_files = ctx.files.peers[ctx.config.get("held_by", "quiet-hours")]
    told, names = ctx.files.load(TOLD), night_files.list_files(HELD)
    if told.get("invocation") != ctx.invocation_id:
        for name in set(names) & set(told.get("names", [])):
            night_files.remove_file(name)
            names.remove(name)
        ctx.files.store(TOLD, {"invocation": ctx.invocation_id, "names": names})
    else:  # it comes again, after a crash
        names = [name for name in names if name in told.get("names", [])]
    notes = [night_files.load(name) for name in names]
    lines = [f"- {note.get('at')} {note.get('from')}: {note.get('said')}" for note in notes]
    return {"response": "While it was quiet\n\n" + "\n".join(lines)} if lines else None


def is_quiet(now: time, begins: time, ends: time) -> bool:
    return begins <= now < ends if begins <= ends else now >= begins or now < ends


def hour(ctx: Context, key: str, default: str) -> time:
    return datetime.strptime(str(ctx.config.get(key, default)), "%H:%M").time()  # noqa: DTZ007 - an hour of any day
