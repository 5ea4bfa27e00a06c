"""What takes place on the days that a task names, and today with whom or where it names."""

import asyncio
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, Final

from nexus.automations.context import Context
from nexus.memory.languages import DEFAULT, dates, mixture, speech
from nexus.memory.recall.words import function_words, split_words
from nexus.roles.calendar.calendars import Calendars, Slot
from nexus.roles.calendar.wording import PREFIX
from nexus.roles.memory_injection.formatting import format_memory, parse_memories
from nexus.roles.services import Services

_DAY: Final = timedelta(days=1)
_MOST_DAYS: Final = 14
_MOST_SHOWN: Final = 12
_SHORTEST: Final = 2
_ASKS: Final = "agenda calendar schedule appointments meetings Termine Kalender"
_OURS: Final = "calendar every other day week month year since until times moved notes all"
"""Words that events are described with, whatever they are about."""


async def run(ctx: Context, calendars: Calendars, services: Services) -> dict[str, Any] | None:
    """Add the events of a task's days, or those of today that it has to do with, to its memories."""
    visible = ctx.request.access.visibility(ctx.request.event.thread_id)
    if visible.nothing:
        return None
    text = ctx.request.event.content
    zone = await calendars.find_zone()
    today = ctx.now().astimezone(zone).date()
    span = await asyncio.to_thread(find_days, text, today)
    slots = await calendars.find_agenda(*(span or (today, today + _DAY)))
    if not slots:
        return None
    earlier = str(ctx.request.enrichment.get("memories") or "")
    said = parse_memories(earlier)
    recall = await services.open_recall(visible)
    items = {item.id: item for item in await recall.load_items(list({slot.fact_id for slot in slots}))}
    lines: list[str] = []
    for slot in slots:
        item = items.get(slot.fact_id)
        if item is None or item.replaced_by or (span is None and not _share_words(text, item.text)):
            continue
        if item.id in said and str(slot) in item.text:
            continue
        lines.append(format_memory(replace(item, text=describe_slot(slot, item.text)), item.speaker))
    if not lines:
        return None
    return {"enrich": {"memories": "\n".join(filter(None, (earlier, *lines[:_MOST_SHOWN])))}}


def describe_slot(slot: Slot, text: str) -> str:
    """Describe what takes place; of a series, when this time."""
    return (
        text if str(slot) in text else f"{str(slot)[:1].upper()}{str(slot)[1:]}: {text.removeprefix(PREFIX)}"
    )


def find_days(text: str, today: date) -> tuple[date, date] | None:
    """Find the days that a task names, from the first to the day after the last; those to come."""
    spoken = speech.languages(text)
    named: list[tuple[date, date]] = [spans[0] for spans, _, _ in dates.find_relative(text, [today], spoken)]
    for moment in dates.find_moments(text, spoken):
        if moment.month is None or moment.day is None:
            continue
        year = moment.year or today.year
        on = _make_day(year, moment.month, moment.day)
        if on is not None and on < today and moment.year is None:
            on = _make_day(year + 1, moment.month, moment.day)
        if on is not None:
            named.append((on, on))
    named = [(first, last) for first, last in named if last >= today]
    if named:
        first = max(today, min(each for each, _ in named))
        last = max(each for _, each in named)
        return first, min(last, first + _DAY * (_MOST_DAYS - 1)) + _DAY
    if split_words(_ASKS).distinct & split_words(text).distinct:
        return today, today + 2 * _DAY
    return None


def _make_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _share_words(task: str, event: str) -> bool:
    """Whether a task names who or what is in an event, or where it is."""
    shared = split_words(task).distinct & split_words(event).distinct
    shared -= function_words(DEFAULT, *mixture(task)) | split_words(_OURS).distinct
    return any(len(word) > _SHORTEST and word.isalpha() and not dates.is_date_name(word) for word in shared)
