"""The `calendar` tool: agents make, change and cancel events, each after the owner has seen it in words."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from urllib.parse import urljoin

from nexus.automations import when
from nexus.broker.tools import Context, Preview, Tool
from nexus.broker.tools.tool import Arguments, parameters
from nexus.errors import NexusError, ToolError
from nexus.history import parser_process
from nexus.history.parser_process import UnreadableError
from nexus.roles.calendar import wording
from nexus.roles.calendar.calendars import Calendars, Place
from nexus.roles.calendar.server import Collection, ConflictError, Server

NAME: Final = "calendar"
_HOUR: Final = timedelta(hours=1)
_TEXTS: Final = ("title", "place", "notes")
_RULES: Final = {"daily": "DAILY", "weekly": "WEEKLY", "monthly": "MONTHLY", "yearly": "YEARLY"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a call would write: where, on which version, and in words. Without data, the event is deleted."""

    place: Place
    data: bytes
    text: str

    @property
    def state(self) -> str:
        return hashlib.sha256(f"{self.place.url}\n{self.place.etag}\n{self.text}".encode()).hexdigest()


def make_calendar_tool(calendars: Calendars) -> Tool:
    """Make the tool. It asks first, whatever the settings say."""

    async def plan(arguments: Arguments, context: Context) -> Change:
        if context.call is None or context.call.request.access.level != "owner":
            raise ToolError("Only the owner's agents may change calendars")
        try:
            return await _plan(calendars, arguments, context.call.key)
        except UnreadableError as error:
            raise ToolError(
                "The event can't be changed so", hint="Does it take place on that day?"
            ) from error
        except NexusError as error:
            raise ToolError(error.message, hint=error.hint) from error

    async def preview(arguments: Arguments, context: Context) -> Preview:
        # If it fails, nobody is asked: nothing may be written that wasn't shown.
        change = await plan(arguments, context)
        return Preview(text=change.text, state=change.state)

    async def run(arguments: Arguments, context: Context) -> str:
        change = await plan(arguments, context)
        if context.expected and change.state != context.expected:
            raise ToolError("The event changed after the user was asked", hint="Make the call again.")
        place = change.place
        try:
            async with Server(calendars.get_settings(place.calendar)) as server:
                if change.data:
                    await server.put(place.url, change.data, place.etag)
                else:
                    await server.delete(place.url, place.etag)
        except ConflictError as error:
            await calendars.sync([place.calendar])
            raise ToolError(
                "The event was changed on the server meanwhile; nothing was written",
                hint="Recall it and ask again.",
            ) from error
        except NexusError as error:
            raise ToolError(error.message, hint=error.hint) from error
        [report] = await calendars.sync([place.calendar])
        late = f" The memory has it later: {report.error}" if report.error else ""
        return f"Done. {change.text}{late}"

    return Tool(
        name=NAME,
        description="Create, change or cancel an event. `event`: id of its fact. Times: 2026-12-03 14:30.",
        parameters=parameters(
            "op",
            op={"type": "string", "enum": ["create", "change", "cancel"]},
            event={"type": "string"},
            instance={"type": "string", "description": "Only this day of a series."},
            title={"type": "string"},
            start={"type": "string"},
            end={"type": "string"},
            place={"type": "string"},
            notes={"type": "string"},
            repeat={"type": "string", "enum": list(_RULES)},
            calendar={"type": "string"},
        ),
        run=run,
        preview=preview,
        asks="It changes your calendar.",
    )


async def _plan(calendars: Calendars, arguments: Arguments, key: str) -> Change:
    """Work out what a call would write, from the event as it is on the server now."""
    given = {name: value for name, value in arguments.items() if value != ""}
    zone = await calendars.find_zone()
    now = calendars.now()
    uid = hashlib.sha256(key.encode()).hexdigest()[:32]
    old, data = "", b""
    if given["op"] == "create":
        if "title" not in given or "start" not in given:
            raise ToolError("A new event needs `title` and `start`")
        place = await _find_new_place(calendars, given.get("calendar", ""), uid)
    else:
        if "event" not in given:
            raise ToolError("`event` is missing", hint="`recall` shows the id of the fact, such as fact_….")
        place = await calendars.find_place(given["event"])
        place, data = await _fetch(calendars, place)
        old = await _describe(calendars, data)
        if given["op"] == "cancel" and "instance" not in given:
            text = f"Removed from the calendar {place.calendar}: {old}"
            return Change(place=place, data=b"", text=text)
    change: dict[str, Any] = {"uid": uid, "zone": str(zone), "now": now.isoformat()}
    change |= {name: given[name] for name in _TEXTS if name in given}
    if "repeat" in given:
        change["repeat"] = _RULES[given["repeat"]]
    if "instance" in given:
        change["instance"] = _read_day(given["instance"]).isoformat()
    if given["op"] == "cancel":
        change["cancel"] = True
    else:
        change |= await _read_times(calendars, given, data)
    edited = await asyncio.to_thread(parser_process.edit_series, data, change)
    new = await _describe(calendars, edited)
    if not data:
        return Change(place=place, data=edited, text=f"New in the calendar {place.calendar}: {new}")
    return Change(place=place, data=edited, text=f"Now: {old}\nThen: {new}")


async def _find_new_place(calendars: Calendars, name: str, uid: str) -> Place:
    """Find where a new event goes: into the first calendar of an account."""
    writable = [each for each, settings in calendars.config.calendar.items() if settings.kind == "caldav"]
    name = name or (writable[0] if writable else "")
    if name not in writable:
        raise ToolError(f"{name} can't be written", hint=f"Calendars: {', '.join(writable)}.")
    async with Server(calendars.get_settings(name)) as server:
        found = await server.find_collections(contacts=False)
    if not found:
        raise ToolError(f"The calendar {name} is gone on the server")
    first = found[0].url
    return Place(calendar=name, collection=first, url=urljoin(first, f"{uid}.ics"), etag="", fact_id="")


async def _fetch(calendars: Calendars, place: Place) -> tuple[Place, bytes]:
    """Fetch an event as it is now; ConflictError if that is not the version that was read."""
    settings = calendars.get_settings(place.calendar)
    if settings.kind == "ics":
        raise ToolError(f"{place.calendar} is a file that is only read")
    collection = Collection(url=place.collection, name=place.calendar, kind="events")
    async with Server(settings) as server:
        found = await server.fetch(collection, [place.url])
    if not found or found[0].etag != place.etag:
        await calendars.sync([place.calendar])
        raise ToolError("The event was changed on the server meanwhile", hint="Recall it, then ask again.")
    return place, found[0].data


async def _describe(calendars: Calendars, data: bytes) -> str:
    zone, today = await calendars.find_zone(), calendars.now().date()
    series = await asyncio.to_thread(parser_process.read_series, data, today, today)
    text = wording.describe(series, zone, today) if series else "An event without a time"
    return text.removeprefix(wording.PREFIX)


async def _read_times(calendars: Calendars, given: Mapping[str, Any], data: bytes) -> dict[str, str]:
    """Read when an event begins and ends. Without an end, it lasts as long as before, or an hour."""
    if "start" not in given and "end" not in given:
        return {}
    zone, lasts, start = await calendars.find_zone(), _HOUR, None
    if data:
        today = calendars.now().date()
        series = await asyncio.to_thread(parser_process.read_series, data, today, today)
        if series is not None:
            begin, end = (wording.parse(each, zone) for each in (series.appointment.start, series.end))
            lasts = wording.as_utc(end, zone) - wording.as_utc(begin, zone)
            start = begin
    if "start" in given:
        start = await _read_moment(calendars, given["start"])
    if start is None:
        raise ToolError("`start` is missing")
    if "instance" in given and "start" not in given and isinstance(start, datetime):
        start = datetime.combine(_read_day(given["instance"]), start.timetz())
    if "end" in given:
        end = await _read_moment(calendars, given["end"], start)
    elif isinstance(start, datetime):
        end = start + lasts
    else:
        end = start + max(lasts, timedelta(days=1))
    if isinstance(start, datetime) != isinstance(end, datetime) or end < start:
        raise ToolError("The event would end before it begins", hint="Give both as 2026-12-03 14:30.")
    return {"start": _write(start), "end": _write(end)}


async def _read_moment(
    calendars: Calendars, text: str, start: wording.Moment | None = None
) -> wording.Moment:
    """Read a day, a time, a time of the day of the beginning, or words such as `tomorrow at 9`."""
    zone, plain = await calendars.find_zone(), text.strip()
    try:
        if len(plain) == len("2026-12-03"):
            return date.fromisoformat(plain)
        if isinstance(start, datetime) and len(plain) <= len("14:30:00") and ":" in plain:
            return datetime.combine(start.date(), time.fromisoformat(plain.zfill(5)), zone)
        return wording.parse(plain.replace(" ", "T", 1), zone)
    except ValueError:
        said = await asyncio.to_thread(when.read, plain, calendars.now(), str(zone))
        if said.at is None:
            raise ToolError(f"{plain!r:.60} is no time", hint="Write it as 2026-12-03 14:30.") from None
        return said.at.astimezone(zone)


def _read_day(text: str) -> date:
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        raise ToolError(f"{text!r:.40} is no day", hint="Write it as 2026-12-03.") from None


def _write(moment: wording.Moment) -> str:
    if isinstance(moment, datetime):
        return moment.replace(tzinfo=None).isoformat(timespec="seconds")
    return moment.isoformat()
