"""meeting-prep: before a meeting of your calendar, what the memory knows about it and who comes."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nexus import Context

DONE = "prepared.json"
KEPT = 200
MOST_BYTES = 4 * 1024 * 1024
MOST_PEOPLE = 8
LINE = re.compile(r"(?P<name>[A-Z-]+)(?P<parameters>(?:;[^:\"]*(?:\"[^\"]*\")?)*):(?P<value>.*)")


async def run(ctx: Context) -> dict[str, Any] | None:
    now, done = ctx.now(), ctx.files.load(DONE)
    briefs: list[str] = []
    for meeting in coming(ctx, now):
        key = f"{meeting['uid']} {meeting['at'].isoformat()}"
        # The same invocation comes again after a crash, and prepares the same.
        if done.setdefault(key, ctx.invocation_id) == ctx.invocation_id:
            briefs.append(await brief(ctx, meeting, key))
    if not briefs:
        return None
    ctx.files.store(DONE, dict(list(done.items())[-KEPT:]))
    return {"response": "\n\n".join(briefs)}


async def brief(ctx: Context, meeting: dict[str, Any], key: str) -> str:
    """What an agent makes of what is known; where nothing is, no model is asked."""
    head = f"{meeting['at']:%H:%M %Z} {meeting['title']}"
    found: dict[str, str] = {}
    for name in (meeting["title"], *meeting["people"]):
        question = f"What is open with, promised to or known about {name}?"
        for match in (await ctx.recall(question, limit=6, deadline_ms=20_000)).results:
            # The best matches always come back: a weak one counts only if it names who or what is meant.
            if match.is_strong or name.lower() in match.item.text.lower():
                found.setdefault(match.item.id, f"- {match.item.at[:10]} {match.item.text}")
    if not found:
        return f"{head}\n\nThe memory holds nothing about it."
    text = await ctx.ask(
        "Write the brief for the meeting.",
        about={
            "meeting": f"{head}\nwith {', '.join(meeting['people'])}",
            "memories": "\n".join(found.values()),
        },
        session=key,
        model=ctx.config.get("model", ""),
    )
    return f"{head}\n\n{text}"


def coming(ctx: Context, now: datetime) -> list[dict[str, Any]]:
    """The meetings that begin soon."""
    zone = ZoneInfo(ctx.automation.triggers.get("zone", "UTC"))
    until = now + timedelta(minutes=int(ctx.config.get("minutes_before", 30)))
    found = [meeting for part in events(ctx) if (meeting := read(part, zone))]
    return sorted((each for each in found if now <= each["at"] <= until), key=lambda each: each["at"])


def events(ctx: Context) -> list[str]:
    """The events of the calendar file. Long lines of it are folded, and go on after a blank."""
    with Path(ctx.config["calendar"]).expanduser().open("rb") as file:
        text = file.read(MOST_BYTES).decode("utf-8", "replace")
    unfolded = re.sub(r"\r?\n[ \t]", "", text)
    return re.findall(r"^BEGIN:VEVENT\s*$(.*?)^END:VEVENT", unfolded, re.MULTILINE | re.DOTALL)


def read(event: str, zone: ZoneInfo) -> dict[str, Any] | None:
    """A meeting with other people and a time of day; None for everything else, also what cannot be read."""
    fields: dict[str, str] = {}
    people: list[str] = []
    for line in event.splitlines():
        found = LINE.fullmatch(line.strip())
        if found and found["name"] == "ATTENDEE":
            named = re.search(r"CN=\"?([^\";:]+)", found["parameters"])
            people.append((named[1] if named else found["value"].removeprefix("mailto:"))[:80])
        elif found:
            fields.setdefault(found["name"], found["value"])
            fields.setdefault(
                f"{found['name']} zone", "".join(re.findall(r"TZID=([^;:]+)", found["parameters"]))
            )
    at = moment(fields.get("DTSTART", ""), fields.get("DTSTART zone", ""), zone)
    if at is None or not people or fields.get("STATUS") == "CANCELLED":
        return None
    title = re.sub(r"\\([,;\\nN])", r"\1", fields.get("SUMMARY", "Meeting"))[:200]
    return {"uid": fields.get("UID", title)[:200], "at": at, "title": title, "people": people[:MOST_PEOPLE]}


def moment(text: str, named: str, zone: ZoneInfo) -> datetime | None:
    try:
        at = datetime.strptime(text.removesuffix("Z"), "%Y%m%dT%H%M%S")  # noqa: DTZ007 - its zone follows
        found = UTC if text.endswith("Z") else ZoneInfo(named) if named else zone
    except (ValueError, ZoneInfoNotFoundError):
        return None
    return at.replace(tzinfo=found).astimezone(zone)
