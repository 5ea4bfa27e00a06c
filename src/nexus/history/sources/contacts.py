"""Address books and calendars: vCard and iCalendar files.

A card becomes a document, an entity with its addresses, and hard facts such as a birthday; an appointment
becomes a document with whom it is with.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from typing import ClassVar, Final

from nexus.history import parser_process
from nexus.history.files import Files
from nexus.history.items import Card, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.parser_process import UnreadableError
from nexus.history.source import (
    Source,
    make_cursor,
    read_beginning,
    read_lines,
    remaining_files,
)

_LARGEST_BYTES: Final = 4 * 1024 * 1024


class _Components(Source):
    """Files made of blocks between a `BEGIN:` and an `END:` line, each read on its own."""

    begin: ClassVar[bytes]
    end: ClassVar[bytes]
    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        names = [name for name in files.names() if name.endswith(cls.suffixes)]
        return any(b"BEGIN:V" in read_beginning(files, name, 200).upper() for name in names)

    def component(self, data: bytes, name: str) -> Iterator[Item]:
        raise NotImplementedError

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(self.files.names(), cursor):
            if name.endswith(self.suffixes):
                yield from self._file(name, start)

    def _file(self, name: str, start: int) -> Iterator[Item]:
        yield Thread(external_id=name, title=name.rpartition("/")[2], kind="document")
        held: list[bytes] | None = None
        size = 0
        try:
            with self.files.open(name) as stream:
                for offset, line in read_lines(stream, start):
                    mark = (line or b"").strip().upper()
                    if mark == self.begin:
                        held, size = [], 0
                    if held is not None:
                        size += len(line or b"")
                        if line is not None and size <= _LARGEST_BYTES:
                            held.append(line)
                    if mark == self.end and held is not None:
                        yield from self._read(b"".join(held), name, offset, is_cut=size > _LARGEST_BYTES)
                        yield Mark(make_cursor(name, offset))
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
        except UnreadableError as error:
            yield SetAside(reason=error.message, place=place)
        except (ValueError, OverflowError) as error:  # a time that no calendar has
            yield SetAside(reason=f"the entry can't be read: {type(error).__name__}", place=place)


class VCard(_Components):
    """An address book as phones and mail programs export it."""

    name: ClassVar[str] = "vcard"
    title: ClassVar[str] = "Contacts (vCard)"
    channel: ClassVar[str] = "contacts"
    begin: ClassVar[bytes] = b"BEGIN:VCARD"
    end: ClassVar[bytes] = b"END:VCARD"
    suffixes: ClassVar[tuple[str, ...]] = (".vcf", ".vcard")

    def component(self, data: bytes, name: str) -> Iterator[Item]:
        card = parser_process.read_card(data)
        if card is None:
            return
        facts = (f"{type_.replace('_', ' ')}: {value}" for _, type_, value in card.facts)
        said = [card.name, *card.emails, *card.phones, *facts, *([card.note] if card.note else [])]
        yield Message(
            external_id=card.uid,
            thread=name,
            author="system",
            content="Contact: " + "\n".join(said),
            at=self.files.modified_at(name),
            kind="contact",
            card=None
            if self.options.is_owner(card.name, *card.emails, *card.phones)
            else Card(
                name=card.name,
                aliases=(
                    *((each, "email") for each in card.emails),
                    *((each, "phone") for each in card.phones),
                ),
                facts=card.facts,
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
        found = parser_process.read_appointment(data)
        if found is None:
            return
        start = _time(found.start)
        begins = self._moment(start)
        people = tuple(self._people(found.attendees))
        when = start.strftime("%Y-%m-%d %H:%M" if isinstance(start, datetime) else "%Y-%m-%d")
        said = [f"Appointment: {found.title or 'without a title'}", f"When: {when}"]
        for label, text in (("Repeats", found.repetition), ("Where", found.place), ("Notes", found.notes)):
            said += [f"{label}: {text}"] if text else []
        said += [f"With: {', '.join(each.name or each.identifier for each in people)}"] if people else []
        # One that is still to come was said when it was written down.
        is_future = begins > datetime.now(UTC)
        yield Message(
            external_id=f"{found.uid}/{found.replaced_start}" if found.replaced_start else found.uid,
            thread=name,
            author="owner",
            recipients=people,
            content="\n".join(said),
            at=self._moment(_time(found.written_at)) if is_future and found.written_at else begins,
            kind="appointment",
            metadata={"starts_at": begins.isoformat()},
        )

    def _moment(self, given: date | datetime) -> datetime:
        whole = given if isinstance(given, datetime) else datetime.combine(given, time())
        return (whole if whole.tzinfo else whole.replace(tzinfo=self.options.timezone)).astimezone(UTC)

    def _people(self, attendees: Iterable[tuple[str, str | None]]) -> Iterator[Person]:
        for given, shown in attendees:
            address = re.sub(r"(?i)^mailto:", "", given).strip().casefold()
            if "@" in address and not self.options.is_owner(address):
                yield Person(identifier=address, kind="email", name=shown)


def _time(text: str) -> date | datetime:
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
