"""What entries of address books and calendars say, whatever program wrote them.

They are read in the parser's process, as mail is: nothing of Nexus is imported.
"""

import hashlib
import importlib
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, cast

_MOST_ATTENDEES: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """An entry of an address book."""

    uid: str
    name: str
    emails: tuple[str, ...]
    phones: tuple[str, ...]
    facts: tuple[tuple[str, str, str], ...]
    """Category, type and value."""
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Appointment:
    """An entry of a calendar. Times are ISO-8601, with an offset if the entry has one."""

    uid: str
    start: str
    """Only a date for one that takes whole days."""
    title: str
    repetition: str
    place: str
    notes: str
    attendees: tuple[tuple[str, str | None], ...]
    """Addresses, and names if there are any."""
    replaced_start: str | None
    """Which one of a series this is."""
    written_at: str | None


def read_card(data: bytes) -> Card | None:
    """Read a vCard; None if it says nothing. It may raise anything, or not end."""
    # Pictures are most of a card's bytes, and nobody asks for them by words.
    lean = re.sub(rb"(?mi)^(?:PHOTO|LOGO|KEY|SOUND)[;:].*\r?\n(?:[ \t].*\r?\n)*", b"", data)
    vobject: Any = importlib.import_module("vobject")  # it has no types
    card = vobject.readOne(lean.decode("utf-8", "replace"), ignoreUnreadable=True)
    held = cast("dict[str, list[Any]]", card.contents)
    shown = _first(held, "fn") or _first(held, "n") or _first(held, "org") or _first(held, "email")
    if not shown:
        return None
    wanted = (
        ("personal", "birthday", "bday"), ("professional", "employer", "org"),
        ("professional", "job_title", "title"), ("contact", "address", "adr"), ("contact", "website", "url"),
    )  # fmt: skip
    facts = ((category, type_, _first(held, key)) for category, type_, key in wanted)
    return Card(
        uid=_first(held, "uid") or hashlib.sha256(lean).hexdigest()[:32],
        name=shown,
        emails=tuple(str(each.value).strip() for each in held.get("email", []) if "@" in str(each.value)),
        phones=tuple(str(each.value).strip() for each in held.get("tel", [])),
        facts=tuple(fact for fact in facts if fact[2]),
        note=_first(held, "note"),
    )


def read_appointment(data: bytes) -> Appointment | None:
    """Read a calendar's VEVENT; None if it has no beginning. It may raise anything, or not end."""
    library: Any = importlib.import_module("icalendar")
    event: Any = library.Event.from_ical(data.decode("utf-8", "replace"))
    start = event.get("DTSTART")
    if start is None:
        return None
    given: object = event.get("ATTENDEE") or []
    attendees: list[tuple[str, str | None]] = []
    for each in cast("list[Any]", given if isinstance(given, list) else [given])[:_MOST_ATTENDEES]:
        shown = each.params.get("CN")
        attendees.append((str(each), str(shown) if shown else None))
    recurrence, stamp, rule = event.get("RECURRENCE-ID"), event.get("DTSTAMP"), event.get("RRULE")
    return Appointment(
        uid=str(event.get("UID") or hashlib.sha256(data).hexdigest()[:32]),
        start=_iso(start.dt),
        title=str(event.get("SUMMARY") or ""),
        repetition=rule.to_ical().decode() if rule else "",
        place=str(event.get("LOCATION") or ""),
        notes=str(event.get("DESCRIPTION") or ""),
        attendees=tuple(attendees),
        replaced_start=None if recurrence is None else _iso(recurrence.dt),
        written_at=None if stamp is None else _iso(stamp.dt),
    )


def _iso(given: object) -> str:
    if not isinstance(given, date | datetime):
        raise TypeError
    return given.isoformat()


def _first(held: dict[str, list[Any]], key: str) -> str:
    values = held.get(key)
    if not values:
        return ""
    value = values[0].value
    joined = " ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
    return " ".join(joined.split())
