"""Address books and calendars: vCard and iCalendar files.

A card becomes a document, an entity with its addresses, and hard facts such as a birthday; an appointment
becomes a document with whom it is with.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar, Final, cast

from nexus.history.files import Files
from nexus.history.items import Card, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.lines import lines
from nexus.history.source import Source, beginning, cursor_place, place_cursor

_LARGEST_BYTES: Final = 4 * 1024 * 1024
_MOST_ATTENDEES: Final = 100


class _Components(Source):
    """Files made of blocks between a `BEGIN:` and an `END:` line, each read on its own."""

    begin: ClassVar[bytes]
    end: ClassVar[bytes]
    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        names = [name for name in files.names() if name.endswith(cls.suffixes)]
        return any(b"BEGIN:V" in beginning(files, name, 200).upper() for name in names)

    def component(self, data: bytes, name: str) -> Iterator[Item]:
        raise NotImplementedError

    def read(self, cursor: str | None) -> Iterator[Item]:
        after, done = cursor_place(cursor)
        for name in self.files.names():
            if name.endswith(self.suffixes) and name >= after:
                yield from self._file(name, done if name == after else 0)

    def _file(self, name: str, start: int) -> Iterator[Item]:
        yield Thread(external_id=name, title=name.rpartition("/")[2], kind="document")
        held: list[bytes] | None = None
        size = 0
        try:
            with self.files.open(name) as stream:
                for offset, line in lines(stream, start):
                    mark = (line or b"").strip().upper()
                    if mark == self.begin:
                        held, size = [], 0
                    if held is not None:
                        size += len(line or b"")
                        if line is not None and size <= _LARGEST_BYTES:
                            held.append(line)
                    if mark == self.end and held is not None:
                        yield from self._read(b"".join(held), name, offset, is_cut=size > _LARGEST_BYTES)
                        yield Mark(place_cursor(name, offset))
                        held = None
        except (OSError, EOFError, ValueError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=name)

    def _read(self, data: bytes, name: str, offset: int, *, is_cut: bool) -> Iterator[Item]:
        place = f"{name}, entry that ends at byte {offset}"
        if is_cut:
            yield SetAside(reason="the entry is larger than 4 MiB", place=place)
            return
        try:
            yield from list(self.component(data, name))
        except Exception as error:  # the libraries meet whatever anybody's phone wrote
            yield SetAside(reason=f"the entry cannot be read: {type(error).__name__}", place=place)


class VCard(_Components):
    """An address book as phones and mail programs export it."""

    name: ClassVar[str] = "vcard"
    title: ClassVar[str] = "Contacts (vCard)"
    channel: ClassVar[str] = "contacts"
    begin: ClassVar[bytes] = b"BEGIN:VCARD"
    end: ClassVar[bytes] = b"END:VCARD"
    suffixes: ClassVar[tuple[str, ...]] = (".vcf", ".vcard")

    def component(self, data: bytes, name: str) -> Iterator[Item]:
        import vobject

        # Pictures are most of a card's bytes, and nobody asks for them by words.
        lean = re.sub(rb"(?mi)^(?:PHOTO|LOGO|KEY|SOUND)[;:].*\r?\n(?:[ \t].*\r?\n)*", b"", data)
        read_one = cast("Any", vobject).readOne  # the library says nothing about its types
        card = read_one(lean.decode("utf-8", "replace"), ignoreUnreadable=True)
        held = cast("dict[str, list[Any]]", card.contents)
        shown = _first(held, "fn") or _first(held, "n") or _first(held, "org") or _first(held, "email")
        if not shown:
            return
        emails = [str(each.value).strip() for each in held.get("email", []) if "@" in str(each.value)]
        phones = [str(each.value).strip() for each in held.get("tel", [])]
        facts = _hard_facts(held)
        said = [
            shown,
            *emails,
            *phones,
            *(f"{type_.replace('_', ' ')}: {value}" for _, type_, value in facts),
        ]
        note = _first(held, "note")
        uid = _first(held, "uid") or hashlib.sha256(lean).hexdigest()[:32]
        yield Message(
            external_id=uid,
            thread=name,
            author="system",
            content="Contact: " + "\n".join([*said, *([note] if note else [])]),
            at=self.files.modified(name),
            kind="contact",
            card=None
            if self.options.is_owner(shown, *emails, *phones)
            else Card(
                name=shown,
                aliases=(*((each, "email") for each in emails), *((each, "phone") for each in phones)),
                facts=tuple(facts),
            ),
        )


class ICalendar(_Components):
    """A calendar: its appointments. A series is one entry, with how it repeats."""

    name: ClassVar[str] = "icalendar"
    title: ClassVar[str] = "Calendar (iCalendar)"
    channel: ClassVar[str] = "calendar"
    begin: ClassVar[bytes] = b"BEGIN:VEVENT"
    end: ClassVar[bytes] = b"END:VEVENT"
    suffixes: ClassVar[tuple[str, ...]] = (".ics", ".ical")

    def component(self, data: bytes, name: str) -> Iterator[Item]:
        from icalendar import Event

        event: Any = Event.from_ical(data.decode("utf-8", "replace"))
        start = event.get("DTSTART")
        if start is None:
            return
        begins = self._moment(start.dt)
        people = tuple(self._people(event))[:_MOST_ATTENDEES]
        when = start.dt.strftime("%Y-%m-%d %H:%M" if isinstance(start.dt, datetime) else "%Y-%m-%d")
        said = [f"Appointment: {event.get('SUMMARY', 'without a title')}", f"When: {when}"]
        said += [f"Repeats: {event.get('RRULE').to_ical().decode()}"] if event.get("RRULE") else []
        for label, key in (("Where", "LOCATION"), ("Notes", "DESCRIPTION")):
            said += [f"{label}: {event.get(key)}"] if event.get(key) else []
        said += [f"With: {', '.join(each.name or each.identifier for each in people)}"] if people else []
        recurrence = event.get("RECURRENCE-ID")
        uid = str(event.get("UID") or hashlib.sha256(data).hexdigest()[:32])
        stamp = event.get("DTSTAMP")
        # One that is still to come was said when it was written down.
        future = begins > datetime.now(UTC)
        yield Message(
            external_id=f"{uid}/{recurrence.dt.isoformat()}" if recurrence is not None else uid,
            thread=name,
            author="owner",
            recipients=people,
            content="\n".join(said),
            at=self._moment(stamp.dt) if future and stamp is not None else begins,
            kind="appointment",
            metadata={"starts_at": begins.isoformat()},
        )

    def _moment(self, given: date | datetime) -> datetime:
        whole = given if isinstance(given, datetime) else datetime.combine(given, time())
        return (whole if whole.tzinfo else whole.replace(tzinfo=self.options.timezone)).astimezone(UTC)

    def _people(self, event: Any) -> Iterator[Person]:
        given: object = event.get("ATTENDEE") or []
        for each in cast("list[Any]", given if isinstance(given, list) else [given]):
            address = re.sub(r"(?i)^mailto:", "", str(each)).strip().casefold()
            if "@" in address and not self.options.is_owner(address):
                shown = each.params.get("CN")
                yield Person(identifier=address, kind="email", name=str(shown) if shown else None)


def _first(held: dict[str, list[Any]], key: str) -> str:
    values = held.get(key)
    if not values:
        return ""
    value = values[0].value
    joined = " ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
    return " ".join(joined.split())


def _hard_facts(held: dict[str, list[Any]]) -> list[tuple[str, str, str]]:
    wanted = (
        ("personal", "birthday", "bday"), ("professional", "employer", "org"),
        ("professional", "job_title", "title"), ("contact", "address", "adr"), ("contact", "website", "url"),
    )  # fmt: skip
    found = [(category, type_, _first(held, key)) for category, type_, key in wanted]
    return [(category, type_, value) for category, type_, value in found if value]
