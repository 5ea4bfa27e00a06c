"""What mails and the entries of address books and calendars say, whatever program wrote them.

They are read in the parser's process, which has a sandbox and limits: nothing of Nexus is imported.
"""

import binascii
import email.errors
import email.header
import email.message
import email.parser
import email.utils
import hashlib
import importlib
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

_MOST_HEADERS: Final = 1_000
_LONGEST_HEADER: Final = 20_000
_MOST_ADDRESSES: Final = 200
_MOST_PARTS: Final = 200
_LONGEST_HTML: Final = 4_000_000
_LONGEST_TEXT: Final = 1_000_000
_PEOPLE: Final = ("from", "sender", "to", "cc", "delivered-to")
# A run of lines that are nothing but base64, as the files of a mail are.
_BASE64: Final = re.compile(rb"(?:^[A-Za-z0-9+/]{60,76}\r?\n)+", re.MULTILINE)
_LONG_BYTES: Final = 100_000
_ID: Final = re.compile(r"<([^<>\s]{1,500})>")
_AUTOMATED: Final = re.compile(
    r"(?:no-?reply|do-?not-?reply|mailer-daemon|postmaster|bounces?|notifications?|newsletter)\b",
    re.IGNORECASE,
)
_REPLY: Final = re.compile(r"^(?:(?:re|aw|sv|antw|fwd?|wg|tr|rif)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_LIST_HEADERS: Final = ("list-id", "list-post", "list-unsubscribe")
_AUTOMATED_HEADERS: Final = ("x-autoreply", "x-autorespond", "x-auto-response-suppress", "feedback-id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Somebody in a header. The address is as it was written."""

    name: str
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a mail that isn't its text. A mail inside of a mail is one of them."""

    name: str | None
    media_type: str
    data: bytes
    is_shown: bool
    """Whether the text shows it, as it does a logo."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """A mail as it was written. Nothing in it was checked."""

    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in their order. What is no UTF-8 has a backslash."""
    people: dict[str, tuple[Address, ...]]
    date: str | None
    media_type: str
    text: str
    """In it `>` begins each line that an HTML mail quotes, as in plain text."""
    parts: tuple[Part, ...]

    def get_all(self, name: str) -> list[str]:
        """Return the values of a header, from the top."""
        return [value for each, value in self.headers if each == name]

    def get(self, name: str) -> str:
        """Return the topmost value of a header; empty if there is none."""
        return next((value for each, value in self.headers if each == name), "")

    def ids(self, name: str) -> list[str]:
        """Return the message ids in a header, without their brackets."""
        return _ID.findall(" ".join(self.get_all(name)))

    @property
    def subject(self) -> str:
        """The subject as one line of readable text."""
        return " ".join(decode_header(self.get("subject")).encode("utf-8", "replace").decode().split())

    @property
    def is_automated(self) -> bool:
        """Whether a program or a mailing list sent it, by its headers (RFC 3834 and common practice)."""
        return (
            any(self.get(name) for name in (*_LIST_HEADERS, *_AUTOMATED_HEADERS))
            or self._word("precedence") in {"bulk", "list", "junk", "auto_reply"}
            or self._word("auto-submitted") not in {"", "no"}
        )

    def _word(self, name: str) -> str:
        return self.get(name).partition(";")[0].strip().casefold()


def decode_header(raw: str, most_characters: int = 200) -> str:
    """Return a header or a file name with its encoded words read."""
    if "=?" not in raw:
        return raw.strip()[:most_characters]
    try:
        return str(email.header.make_header(email.header.decode_header(raw))).strip()[:most_characters]
    except (ValueError, LookupError, email.errors.HeaderParseError):
        return raw.strip()[:most_characters]


def plain_subject(subject: str) -> str:
    """Return a subject without the prefixes of replies and forwards."""
    return _REPLY.sub("", subject).strip()


def is_automated_address(address: str) -> bool:
    """Whether an address is one that nobody reads."""
    return _AUTOMATED.match(address) is not None


def read_mail(data: bytes) -> Mail:
    """Read a mail. It may raise anything, or not end: call it through `parser_process`."""
    blocks = _Blocks()
    mail = email.parser.BytesParser().parsebytes(blocks.take_out(data))
    headers = tuple((name.lower(), _utf8(str(value)[:_LONGEST_HEADER])) for name, value in mail.raw_items())
    if len(headers) > _MOST_HEADERS or any(
        name == "from" and len(value) >= _LONGEST_HEADER for name, value in headers
    ):
        raise ValueError  # what is cut off could say who really wrote it
    people = {
        wanted: tuple(
            Address(name=decode_header(_printable(name)), address=address)
            for name, address in email.utils.getaddresses(
                [value for name, value in headers if name == wanted]
            )
        )[:_MOST_ADDRESSES]
        for wanted in _PEOPLE
    }
    date = None
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        written = next((value for name, value in headers if name == "date"), "")
        date = email.utils.parsedate_to_datetime(written).isoformat()
    text, parts = _content(mail, blocks)
    return Mail(
        headers=headers,
        people=people,
        date=date,
        media_type=mail.get_content_type(),
        text=_printable(text),
        parts=parts,
    )


def text_of_html(html: str) -> str:
    """Return the words of an HTML mail, line by line. What it quotes begins with `>`, as in plain text."""
    etree: Any = importlib.import_module("lxml.etree")  # it has no types
    stripper = _Stripper()
    # Nesting has no limit, because nothing is built from it; and a page doesn't choose how it is decoded.
    parser = etree.HTMLParser(target=stripper, encoding="utf-8", huge_tree=True)
    parser.feed(html[:_LONGEST_HTML].replace("\0", "").encode("utf-8", "replace"))
    with suppress(etree.LxmlError):  # an empty document
        parser.close()
    return re.sub(r"\n{3,}", "\n\n", stripper.text()).strip()


def _utf8(raw: str) -> str:
    """Return a header as it came in, as UTF-8: two that differ stay different."""
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


class _Blocks:
    """Long runs of base64, kept from the parser: line by line, it would take seconds for them."""

    def __init__(self) -> None:
        self._name = f"block-{secrets.token_hex(16)}-"
        self._held: list[bytes] = []

    def take_out(self, data: bytes) -> bytes:
        """Return a mail with a name in place of each run."""
        return _BASE64.sub(self._take, data)

    def put_back(self, data: bytes) -> bytes:
        """Return what the parser made of a part, whole."""
        name = self._name.encode()
        return (
            re.sub(name + rb"(\d+)\r?\n", lambda found: self._held[int(found[1])], data)
            if name in data
            else data
        )

    def decode(self, part: email.message.Message) -> bytes:
        """Return the bytes of a part, as it is encoded."""
        held: Any = part.get_payload()
        if isinstance(held, str) and self._name in held:
            whole = self.put_back(held.encode("ascii", "surrogateescape"))
            if str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "base64":
                characters = whole.translate(None, b"\r\n\t ")
                # Four make three bytes, and its end may be cut off: one alone says nothing.
                characters = characters[:-1] if len(characters) % 4 == 1 else characters
                with suppress(binascii.Error):
                    return binascii.a2b_base64(characters + b"=" * (-len(characters) % 4))
            part.set_payload(whole.decode("ascii", "surrogateescape"))
        found: Any = part.get_payload(decode=True)
        return found if isinstance(found, bytes) else b""

    def _take(self, found: re.Match[bytes]) -> bytes:
        if len(found[0]) < _LONG_BYTES:
            return found[0]
        self._held.append(found[0])
        return f"{self._name}{len(self._held) - 1}\n".encode()


def _content(mail: email.message.Message, blocks: _Blocks) -> tuple[str, tuple[Part, ...]]:
    plain: list[str] = []
    html: list[str] = []
    parts: list[Part] = []
    for part in _leaves(mail):
        kind, name = part.get_content_type(), part.get_filename()
        is_attached = bool(name) or part.get_content_disposition() == "attachment"
        if kind == "text/html" and not is_attached:
            html.append(_part_text(part, blocks))
        elif kind.startswith("text/") and not is_attached:
            plain.append(_part_text(part, blocks))
        else:
            parts.append(_part(part, kind, name, blocks))
    text = "\n".join(plain).strip() or text_of_html("\n".join(html))
    return text.replace("\r\n", "\n")[:_LONGEST_TEXT], tuple(parts)


def _leaves(mail: email.message.Message) -> Iterator[email.message.Message]:
    """Yield the parts that hold something, in order."""
    waiting, seen = [mail], 0
    while waiting and seen < _MOST_PARTS:
        part = waiting.pop()
        seen += 1
        inner: Any = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(inner, list):
            waiting += reversed(cast("list[email.message.Message]", inner))
        else:
            yield part


def _part(part: email.message.Message, kind: str, name: str | None, blocks: _Blocks) -> Part:
    inner: Any = part.get_payload()
    if isinstance(inner, list):
        data = blocks.put_back(
            b"\n".join(each.as_bytes() for each in cast("list[email.message.Message]", inner))
        )
        name = name or "mail.eml"
    else:
        data = blocks.decode(part)
    return Part(
        name=decode_header(_printable(name)) if name else None,
        media_type=_printable(kind),
        data=data,
        is_shown=part.get_content_disposition() == "inline" or part.get("Content-ID") is not None,
    )


def _part_text(part: email.message.Message, blocks: _Blocks) -> str:
    """Return the text of a part. Bytes that its charset doesn't have are replaced."""
    data = blocks.decode(part)
    charset = part.get_content_charset() or "utf-8"
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


class _Stripper:
    _BREAKS: Final = frozenset({"p", "br", "div", "tr", "li", "h1", "h2", "h3", "h4", "table", "blockquote"})
    _HIDDEN: Final = frozenset({"style", "script", "head", "title"})
    _MOST_QUOTES: Final = 10

    def __init__(self) -> None:
        self._lines: list[tuple[int, list[str]]] = [(0, [])]
        self._hidden = 0
        self._quotes = 0

    def start(self, tag: str, attrib: object) -> None:
        self._hidden += tag in self._HIDDEN
        self._quotes += tag == "blockquote"
        if tag in self._BREAKS:
            self._break()

    def end(self, tag: str) -> None:
        if tag in self._HIDDEN and self._hidden:
            self._hidden -= 1
        if tag == "blockquote" and self._quotes:
            self._quotes -= 1
            self._break()

    def data(self, data: str) -> None:
        if not self._hidden:
            first, *more = data.split("\n")
            self._lines[-1][1].append(first)
            for line in more:
                self._break()
                self._lines[-1][1].append(line)

    def close(self) -> None:
        pass

    def text(self) -> str:
        return "\n".join(_line(quotes, parts) for quotes, parts in self._lines)

    def _break(self) -> None:
        self._lines.append((min(self._quotes, self._MOST_QUOTES), []))


def _line(quotes: int, parts: list[str]) -> str:
    text = " ".join("".join(parts).split())
    return f"{'> ' * quotes}{text}" if text else ""


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
    return None if event.get("DTSTART") is None else _describe_event(event, data)


def _describe_event(event: Any, data: bytes) -> Appointment:
    given: object = event.get("ATTENDEE") or []
    attendees: list[tuple[str, str | None]] = []
    for each in cast("list[Any]", given if isinstance(given, list) else [given])[:_MOST_ATTENDEES]:
        shown = each.params.get("CN")
        attendees.append((str(each), str(shown) if shown else None))
    recurrence, stamp, rule = event.get("RECURRENCE-ID"), event.get("DTSTAMP"), event.get("RRULE")
    return Appointment(
        uid=str(event.get("UID") or hashlib.sha256(data).hexdigest()[:32]),
        start=_iso(event["DTSTART"].dt),
        title=str(event.get("SUMMARY") or ""),
        repetition=rule.to_ical().decode() if rule else "",
        place=str(event.get("LOCATION") or ""),
        notes=str(event.get("DESCRIPTION") or ""),
        attendees=tuple(attendees),
        replaced_start=None if recurrence is None else _iso(recurrence.dt),
        written_at=None if stamp is None else _iso(stamp.dt),
    )


_MOST_TIMES: Final = 400
_MOST_EXCEPTIONS: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One event of a calendar with all its instances. Times are ISO-8601, as in `Appointment`."""

    appointment: Appointment
    end: str
    is_cancelled: bool
    organizer: str
    moved: tuple[tuple[str, str, str], ...]
    """Of each instance that takes place at another time: when it would, and its beginning and end."""
    called_off: tuple[str, ...]
    """When the instances that don't take place would begin."""
    times: tuple[tuple[str, str], ...]
    """Beginning and end of what takes place between the two days; of a single event, whenever it does."""


def read_series(data: bytes) -> Series | None:
    """Read a calendar with one event: two days in a line, then the iCalendar text; None if nothing begins.

    It may raise anything, or not end.
    """
    days, _, text = data.partition(b"\n")
    library: Any = importlib.import_module("icalendar")
    calendar: Any = library.Calendar.from_ical(text.decode("utf-8", "replace"))
    events: list[Any] = [each for each in calendar.walk("VEVENT") if each.get("DTSTART") is not None]
    if not events:
        return None
    first = next((each for each in events if each.get("RECURRENCE-ID") is None), events[0])
    appointment = _describe_event(first, text)
    others = [each for each in events if each is not first]
    off = [each for each in others if str(each.get("STATUS") or "").upper() == "CANCELLED"]
    moved = [
        (_iso(each["RECURRENCE-ID"].dt), _iso(each["DTSTART"].dt), _end(each))
        for each in others
        if each not in off and each.get("RECURRENCE-ID") is not None
    ]
    given: object = first.get("EXDATE") or []
    listed = cast("list[Any]", given if isinstance(given, list) else [given])
    skipped: list[Any] = [each.dt for dates in listed for each in dates.dts]
    skipped += [each["RECURRENCE-ID"].dt for each in off if each.get("RECURRENCE-ID") is not None]
    is_cancelled = str(first.get("STATUS") or "").upper() == "CANCELLED"
    found: list[Any] = [] if is_cancelled else [first]
    if not is_cancelled and (others or first.get("RRULE") or first.get("RDATE")):
        expand: Any = importlib.import_module("recurring_ical_events")
        begin, end = (date.fromisoformat(day) for day in days.decode().split())
        instances = expand.of(calendar).between(begin, end)
        found = [each for each in instances if each.get("STATUS") != "CANCELLED"]
    times = sorted((_iso(each["DTSTART"].dt), _end(each)) for each in found)
    return Series(
        appointment=appointment,
        end=_end(first),
        is_cancelled=is_cancelled,
        organizer=str(first.get("ORGANIZER") or ""),
        moved=tuple(sorted(each for each in moved if each[0] != each[1])[-_MOST_EXCEPTIONS:]),
        called_off=tuple(sorted(map(_iso, skipped))[-_MOST_EXCEPTIONS:]),
        times=tuple(times[:_MOST_TIMES]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Edited:
    """The text of a calendar after a change."""

    text: str


def edit_series(data: bytes) -> Edited:
    """Change an event: what is to be different as JSON in a line, then the iCalendar text; none: a new event.

    With `instance`, a day, only what takes place then is changed, or with `cancel` called off. It may raise
    anything, or not end.
    """
    given, _, text = data.partition(b"\n")
    change: dict[str, Any] = json.loads(given)
    library: Any = importlib.import_module("icalendar")
    zone = ZoneInfo(change["zone"])
    now = datetime.fromisoformat(change["now"])
    if text:
        calendar: Any = library.Calendar.from_ical(text.decode("utf-8", "replace"))
    else:
        calendar = library.Calendar()
        calendar.add("VERSION", "2.0")
        calendar.add("PRODID", "-//Nexus//EN")
        event: Any = library.Event()
        event.add("UID", change["uid"])
        calendar.add_component(event)
    events: list[Any] = list(calendar.walk("VEVENT"))
    event = next((each for each in events if each.get("RECURRENCE-ID") is None), events[0])
    if day := change.get("instance"):
        original, own = _find_instance(event, events, date.fromisoformat(day))
        if change.get("cancel"):
            event.add("EXDATE", original)
            calendar.subcomponents = [each for each in calendar.subcomponents if each is not own]
        else:
            if own is None:
                own = event.copy(recursive=True)
                for name in ("RRULE", "RDATE", "EXDATE", "DTEND", "DURATION", "DTSTART"):
                    own.pop(name, None)
                own.add("DTSTART", original)
                own.add("DTEND", original + (datetime.fromisoformat(_end(event)) - event["DTSTART"].dt))
                own.add("RECURRENCE-ID", original)
                calendar.add_component(own)
            event = own
    sequence = int(event.pop("SEQUENCE", 0)) + 1 if text else 0
    for name, value in (("DTSTAMP", now), ("LAST-MODIFIED", now), ("SEQUENCE", sequence)):
        event.pop(name, None)
        event.add(name, value)
    for name, key in (("SUMMARY", "title"), ("LOCATION", "place"), ("DESCRIPTION", "notes")):
        if key in change:
            event.pop(name, None)
            event.add(name, change[key])
    for name, key in (("DTSTART", "start"), ("DTEND", "end")):
        if key in change:
            event.pop(name, None)
            event.pop("DURATION", None)
            whole = "T" in change[key]
            moment = datetime.fromisoformat(change[key]) if whole else date.fromisoformat(change[key])
            event.add(name, moment.replace(tzinfo=zone) if isinstance(moment, datetime) else moment)
    if rule := change.get("repeat"):
        event.pop("RRULE", None)
        event.add("RRULE", {"FREQ": rule})
    calendar.add_missing_timezones()
    return Edited(text=calendar.to_ical().decode())


def _find_instance(event: Any, events: list[Any], day: date) -> tuple[Any, Any]:
    """Return when the instance of a day begins by the rule, and the event that stands for it, if one does."""
    for each in events:
        given = each.get("RECURRENCE-ID")
        if given is not None and day.isoformat() in {_iso(given.dt)[:10], _iso(each["DTSTART"].dt)[:10]}:
            return given.dt, each
    expand: Any = importlib.import_module("recurring_ical_events")
    for each in expand.of(event).at(day):
        return each["DTSTART"].dt, None
    raise LookupError


def _end(event: Any) -> str:
    """When an event ends: a whole day with the next one, another one without an end as it begins."""
    if event.get("DTEND") is not None:
        return _iso(event["DTEND"].dt)
    start = event["DTSTART"].dt
    if event.get("DURATION") is not None:
        return _iso(start + event["DURATION"].dt)
    return _iso(start if isinstance(start, datetime) else start + timedelta(days=1))


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
