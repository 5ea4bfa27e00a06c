"""WhatsApp's chat export: a text file, written in the format of the phone's locale.

    13.02.26, 10:00 - Anna: Hello            Android, Germany
    2/13/26, 10:00 PM - Anna: Hello          Android, United States
    [13/02/2026, 22:00:05] Anna: Hello       iPhone, United Kingdom

Whether the day or the month comes first is told by the whole file: a number above 12, else the order in
which the times never go back.
"""

import hashlib
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar, Final

from nexus.history.files import Files
from nexus.history.items import Attachment, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.source import (
    Source,
    guess_type,
    make_cursor,
    read_beginning,
    read_lines,
    remaining_files,
)

_MARKS: Final = str.maketrans({"\u200e": None, "\u200f": None, "\u202a": None, "\u202c": None, "\ufeff": None,
                               "\u202f": " ", "\u00a0": " "})  # fmt: skip
_LINE: Final = re.compile(
    r"\[?(?P<a>\d{1,4})(?P<sep>[./-])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{2,4})\.?,?\s+"
    r"(?:um\s+|à\s+)?(?P<h>\d{1,2})[:.](?P<m>\d\d)(?:[:.](?P<s>\d\d))?\s*(?P<half>[aApP]\.?\s?[mM]\.?)?"
    r"(?:\]\s|\s-\s)(?P<rest>.*)",
    re.DOTALL,
)
_FILE: Final = re.compile(r"(?:<[^<>:]{2,30}:\s*)?([\w.-]+\.\w{2,5})(?:>|\s+\([^()]{2,30}\))$")
_PROBED: Final = 200_000
# Of one message, so that a text file that is no chat doesn't fill the memory.
_MOST_LINES: Final = 20_000
_LONGEST_LINE: Final = 100_000
_LONGEST_NAME: Final = 500

Parts = tuple[int, int, int]


class WhatsApp(Source):
    """The zip archive or text file that "Export chat" makes."""

    name: ClassVar[str] = "whatsapp"
    title: ClassVar[str] = "WhatsApp chat"
    channel: ClassVar[str] = "whatsapp"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(_looks_so(read_beginning(files, name)) for name in _names(files))

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(_names(self.files), cursor):
            if _looks_so(read_beginning(self.files, name)):
                yield from self._chat(name, start)

    def _chat(self, name: str, start: int) -> Iterator[Item]:
        order = self._order(name)
        title, folder = _title(name, self.files), name[: name.rfind("/") + 1]
        yield Thread(external_id=title, title=title)
        seen: dict[str, int] = {}
        held: list[str] = []
        head: re.Match[str] | None = None
        begins = offset = 0
        try:
            # From the start also on resuming: what was said twice in a minute is told apart by counting.
            with self.files.open(name) as stream:
                for offset, raw in read_lines(stream):
                    if raw is None:
                        yield SetAside(reason="the line is longer than 16 MiB", place=name)
                        continue
                    line = _text(raw).rstrip("\r\n")
                    found = _LINE.match(line)
                    if found is None:
                        if len(held) < _MOST_LINES:
                            held.append(line)
                        continue
                    if head is not None:
                        message = self._message(head, held, order, title, folder, seen)
                        if begins >= start:
                            yield from message
                            yield Mark(make_cursor(name, offset - len(raw)))
                    head, held, begins = found, [], offset - len(raw)
            if head is not None and begins >= start:
                yield from self._message(head, held, order, title, folder, seen)
                yield Mark(make_cursor(name, offset))
        except (OSError, EOFError, ValueError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=name)

    def _order(self, name: str) -> str:
        """`ymd`, `dmy` or `mdy`."""
        parts: list[Parts] = []
        dots = False
        with self.files.open(name) as stream:
            for number, (_, raw) in enumerate(read_lines(stream)):
                found = _LINE.match(_text(raw or b""))
                if found:
                    dots = dots or found["sep"] == "."
                    parts.append((int(found["a"]), int(found["b"]), int(found["c"])))
                if number > _PROBED:
                    break
        if any(a > 31 for a, _, _ in parts):
            return "ymd"
        if any(a > 12 for a, _, _ in parts) or dots:
            return "dmy"
        if any(b > 12 for _, b, _ in parts):
            return "mdy"
        back = {order: _steps_back(parts, order) for order in ("dmy", "mdy")}
        return "mdy" if back["mdy"] < back["dmy"] else "dmy"

    def _message(
        self,
        head: re.Match[str],
        more: list[str],
        order: str,
        chat: str,
        folder: str,
        seen: dict[str, int],
    ) -> list[Item]:
        at = self._moment(head, order)
        sender, colon, said = head["rest"].partition(": ")
        if not colon or len(sender) > 100:
            return []  # the program's own notices: somebody joined, the chat is encrypted
        content = "\n".join([said, *more]).strip()
        # Messages have no ids: the same words at the same time are told apart by their number.
        key = hashlib.sha256(f"{chat}\0{at}\0{sender}\0{content}".encode("utf-8", "replace")).hexdigest()[:32]
        number = seen.get(key, 0) + 1
        if len(seen) > 10_000:
            seen.clear()
        seen[key] = number
        first = content.partition("\n")[0]
        file = _FILE.search(first) if len(first) < _LONGEST_NAME else None
        message = Message(
            external_id=key if number == 1 else f"{key}-{number}",
            thread=chat,
            author="owner" if self.options.is_owner(sender) else "person",
            sender=Person(identifier=f"whatsapp/{sender}", name=sender),
            content=content or "(empty)",
            at=at,
            attachments=(self._make_attachment(file.group(1), folder),) if file else (),
        )
        return [message]

    def _make_attachment(self, name: str, folder: str) -> Attachment:
        member = f"{folder}{name}"
        return Attachment(
            name=name, media_type=guess_type(name), member=member if member in self.members else None
        )

    def _moment(self, head: re.Match[str], order: str) -> datetime | None:
        year, month, day = _date((int(head["a"]), int(head["b"]), int(head["c"])), order)
        hour = int(head["h"])
        if head["half"]:
            hour = hour % 12 + (12 if head["half"].lower().startswith("p") else 0)
        try:
            local = datetime(
                year, month, day, hour, int(head["m"]), int(head["s"] or 0), tzinfo=self.options.timezone
            )
            return local.astimezone(UTC)
        except (ValueError, OverflowError):
            return None


def _text(raw: bytes) -> str:
    """Return a line, without the marks of its direction. WhatsApp cuts messages long before this does."""
    return raw.decode("utf-8", "replace")[:_LONGEST_LINE].translate(_MARKS)


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if name.endswith(".txt")]


def _looks_so(start: bytes) -> bool:
    shown = start.decode("utf-8", "replace").translate(_MARKS).splitlines()[:10]
    return any(_LINE.match(line) for line in shown)


def _title(name: str, files: Files) -> str:
    stem = name.rpartition("/")[2].removesuffix(".txt")
    if stem == "_chat":
        stem = files.path.stem
    return re.sub(r"^WhatsApp[- ](?:Chat|Discussion)[- ](?:with|mit|avec|con|-)\s+", "", stem) or stem


def _date(parts: Parts, order: str) -> Parts:
    a, b, c = parts
    year, month, day = {"ymd": (a, b, c), "dmy": (c, b, a), "mdy": (c, a, b)}[order]
    return (year + 2000 if year < 100 else year), month, day


def _steps_back(parts: list[Parts], order: str) -> int:
    dates = [_date(each, order) for each in parts]
    return sum(later < earlier for earlier, later in itertools.pairwise(dates))
