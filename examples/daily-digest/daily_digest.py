"""daily-digest: once a day, what came into the memory since the last one, in a few lines."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from nexus import Context

SENT = "sent.json"
LONGEST = timedelta(days=7)
QUESTION = "What happened, was decided, promised or planned?"


async def run(ctx: Context) -> dict[str, Any] | None:
    now = ctx.now()
    day = now.astimezone(ZoneInfo(ctx.automation.triggers.get("zone", "UTC"))).date().isoformat()
    sent = ctx.files.load(SENT)
    # After a crash the same invocation comes again and must finish; any other one of that day is too many.
    again = sent.get("invocation") == ctx.invocation_id
    if sent.get("day") == day and not again:
        return None
    since = max(now - LONGEST, moment(sent.get("since" if again else "until")) or now - timedelta(days=1))
    found = await ctx.recall(
        ctx.config.get("question", QUESTION),
        kinds=["fact", "episode"],
        after=since,
        limit=int(ctx.config.get("most", 40)),
        max_tokens=4_000,
        deadline_ms=20_000,  # nobody waits for it, and "nothing" must not mean "no time"
    )
    if not found.results:
        return None  # nothing happened: no message, and no model is asked
    lines = "\n".join(f"- {match.item.at[:10]} {match.item.text}" for match in found.results)
    text = await ctx.ask(
        f"Write the digest of {day}.",
        about={"memories": lines},
        session=day,
        model=ctx.config.get("model", ""),
    )
    if not text:
        return {"flag": "the model wrote nothing"}
    told = {"since": since.isoformat(), "until": now.isoformat(), "invocation": ctx.invocation_id}
    ctx.files.store(SENT, {"day": day, **told})
    return {"response": f"Digest of {day}\n\n{text}"}


def moment(text: Any) -> datetime | None:
    """A moment of the file; None where somebody spoilt it."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
