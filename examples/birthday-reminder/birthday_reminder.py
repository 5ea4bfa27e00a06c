"""birthday-reminder: says in time whose birthday is coming, from what the memory knows. No model is asked."""

import re
from calendar import isleap, month_name
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from nexus import Context, Item

TOLD = "told.json"
KEPT = 500
MONTHS = list(month_name)[1:]
ABOUT = re.compile(r"\b(birthday|born)\b", re.IGNORECASE)
NAMES = "|".join(f"{month[:3]}(?:{month[3:]})?" if month[3:] else month for month in MONTHS)
DAYS = (
    re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.? (?:of )?(?P<month>{NAMES})\b", re.IGNORECASE),
    re.compile(rf"\b(?P<month>{NAMES}) (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b", re.IGNORECASE),
    re.compile(r"\b\d{4}-(?P<number>\d\d)-(?P<day>\d\d)\b"),
)


async def run(ctx: Context) -> dict[str, Any] | None:
    zone = ZoneInfo(ctx.automation.triggers.get("zone", "UTC"))
    today = ctx.now().astimezone(zone).date()
    told = ctx.files.load(TOLD)
    lines: list[str] = []
    for ahead in sorted({int(days) for days in ctx.config.get("days_before", [0, 7])}):
        when = today + timedelta(days=ahead)
        for fact in await known(ctx, when):
            key = f"{when.isoformat()} {ahead} {fact.id}"
            # The same invocation comes again after a crash, and says the same.
            if told.setdefault(key, ctx.invocation_id) == ctx.invocation_id:
                lines.append(f"- {words(ahead)}, {when.day} {MONTHS[when.month - 1]}: {fact.text}")
    if not lines:
        return None
    ctx.files.store(TOLD, dict(list(told.items())[-KEPT:]))
    return {"response": "Birthdays\n\n" + "\n".join(lines)}


async def known(ctx: Context, when: date) -> list[Item]:
    """The facts that name this day as somebody's birthday."""
    question = f"Whose birthday is on {when.day} {MONTHS[when.month - 1]}?"
    found = await ctx.recall(question, kinds=["fact"], limit=50, max_tokens=6_000, deadline_ms=20_000)
    items = [match.item for match in found.results]
    return [each for each in items if ABOUT.search(each.text) and falls_on(each.text, when)]


def falls_on(text: str, when: date) -> bool:
    return any(celebrated(found, when) for pattern in DAYS for found in pattern.finditer(text))


def celebrated(found: re.Match[str], when: date) -> bool:
    named = found.groupdict()
    month = int(named["number"]) if named.get("number") else month_of(named["month"])
    day = int(named["day"])
    if (month, day) == (2, 29) and not isleap(when.year):
        day = 28
    return (month, day) == (when.month, when.day)


def month_of(name: str) -> int:
    short = [month[:3].casefold() for month in MONTHS]
    return short.index(name[:3].casefold()) + 1


def words(ahead: int) -> str:
    return {0: "Today", 1: "Tomorrow"}.get(ahead, f"In {ahead} days")
