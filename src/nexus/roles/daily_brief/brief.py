"""What a daily brief says: one function for each section, in the order in which they are read."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from nexus import clock
from nexus.automations.context import Context
from nexus.ledgers import sql
from nexus.ledgers.memory import follow_ups, shorten_id
from nexus.memory.languages import dates, speech
from nexus.memory.languages.cues import compile_cue
from nexus.memory.views import facts
from nexus.roles import calendar
from nexus.roles.follow_ups.follow_ups import describe
from nexus.roles.services import Services
from nexus.text import join_lines

_DAY: Final = timedelta(days=1)
_BIRTHDAYS_AHEAD: Final = timedelta(days=7)
_SHOWN: Final = 10
_CHANGES_READ: Final = 50
_CERTAIN: Final = 1.0
"""The confidence of a change that somebody stated; others were judged, and are asked about."""


@dataclass(frozen=True, kw_only=True)
class Morning:
    """One brief: for which day, and on whose behalf."""

    ctx: Context
    services: Services
    now: datetime
    zone: str

    @property
    def today(self) -> date:
        return self.now.astimezone(ZoneInfo(self.zone)).date()

    @property
    def end(self) -> datetime:
        """The end of the day."""
        midnight = datetime.combine(self.today + _DAY, datetime.min.time(), ZoneInfo(self.zone))
        return midnight.astimezone(UTC)


Section = Callable[[Morning], Awaitable[list[str]]]
"""Writes the lines of a section; no lines, no section."""


async def list_follow_ups(morning: Morning) -> list[str]:
    """List what was promised for today or without a date. It counts as raised."""
    if not morning.services.config.followups.enabled:
        return []
    found = await morning.services.ledgers.memory.write(
        follow_ups.take_for_brief,
        by=morning.ctx.invocation_id,
        until=clock.timestamp(morning.end),
        now=clock.timestamp(morning.now),
    )
    return [describe(each, morning.zone) for each in found]


async def list_birthdays(morning: Morning) -> list[str]:
    """List the birthdays of today and the next seven days that the memory knows."""
    today = morning.today
    lines: dict[str, tuple[date, str]] = {}
    for question in (f"Whose birthday is on {today.day} {today:%B}?", "When is whose birthday? When born?"):
        found = await morning.ctx.recall(
            question, kinds=["fact"], limit=50, max_tokens=6_000, deadline_ms=20_000
        )
        for item in (match.item for match in found.results):
            on = await asyncio.to_thread(find_birthday, item.text, today)
            if on is not None:
                lines[item.id] = (on, join_lines(item.text))
    days = {today: "Today", today + _DAY: "Tomorrow"}
    return [f"{days.get(on, f'{on:%A}')}: {text}" for on, text in sorted(lines.values())]


async def list_changes(morning: Morning) -> list[str]:
    """List what the memory learned since yesterday, and ask about what conflicts."""
    period = {"since": clock.timestamp(morning.now - _DAY), "until": clock.timestamp(morning.now)}
    query = sql.queries("memory")["facts_learned_since"]
    learned = await morning.services.ledgers.memory.read(sql.rows, query, {**period, "limit": _SHOWN})
    lines = [join_lines(str(row[0])) for row in learned]
    if learned and learned[0][1] > len(learned):
        lines.append(f"and {learned[0][1] - len(learned):,} more: `nexus memory review`")
    return lines


async def list_questions(morning: Morning) -> list[str]:
    """Ask about facts that seem to be replaced since yesterday, where nobody said that they are."""
    since = clock.timestamp(morning.now - _DAY)
    questions: list[str] = []
    for old in await facts.load_changes(morning.services.ledgers, limit=_CHANGES_READ):
        new = old.replaced_by
        if new is None or new.confidence >= _CERTAIN or new.at < since or old.state.is_rejected:
            continue
        questions.append(
            f"“{join_lines(old.fact)}” or now “{join_lines(new.fact)}”? If both are true: "
            f"`nexus memory keep-both {shorten_id(old.id)}`"
        )
    return questions[-_SHOWN:]


async def list_agenda(morning: Morning) -> list[str]:
    """List what is in the calendar today."""
    if not morning.services.config.calendar:
        return []
    return await calendar.list_day(morning.services, morning.today)


SECTIONS: Final[tuple[tuple[str, Section], ...]] = (
    ("Today", list_agenda),
    ("Still open", list_follow_ups),
    ("Birthdays", list_birthdays),
    ("Learned since yesterday", list_changes),
    ("Is that right?", list_questions),
)


async def run(ctx: Context, services: Services) -> dict[str, Any] | None:
    """Write the brief; on a day without anything to say, nothing is sent."""
    zone = str(ctx.automation.triggers.get("zone", "UTC"))
    morning = Morning(ctx=ctx, services=services, now=ctx.now(), zone=zone)
    parts: list[str] = []
    for title, section in SECTIONS:
        if lines := await section(morning):
            parts.append("\n".join((f"**{title}**", *(f"- {line}" for line in lines))))
    if not parts:
        return None
    return {"response": "\n\n".join((f"{morning.today:%A %Y-%m-%d}", *parts))}


def find_birthday(text: str, today: date) -> date | None:
    """Find the day in the next week on which a fact says that it is somebody's birthday."""
    if not compile_cue("birthday").search(speech.normalize(text)):
        return None
    named = dates.find_moments(text, speech.languages(text))
    for ahead in range(_BIRTHDAYS_AHEAD.days + 1):
        on = today + timedelta(days=ahead)
        if any((each.month, each.day) == (on.month, on.day) for each in named):
            return on
    return None
