"""Mail: mbox files (Gmail's Takeout, Thunderbird, Apple Mail) and Maildir folders.

A thread is what the first message of its References names. Quotes of quotes are left out: what they repeat
is in the mail that they quote.

Anybody can write the owner's address into From. A mail is the owner's if it was filed as sent, or if the
server that received it vouches for its sender; otherwise it is somebody's words.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history import mail_authentication, mime, parser_process
from nexus.history.files import Files
from nexus.history.items import Attachment, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.mail_addresses import normalize_address
from nexus.history.mime import Mail
from nexus.history.parser_process import UnreadableError
from nexus.history.source import (
    Source,
    make_cursor,
    parse_cursor,
    parse_moment,
    read_beginning,
    read_lines,
    remaining_files,
)

_LARGEST_BYTES: Final = 16 * 1024 * 1024
_MOST_PEOPLE: Final = 100
_LONGEST_ADDRESS: Final = 255
# What programs and providers call the folder of sent mail, as a label, a file or a folder.
_SENT: Final = re.compile(
    r"\.?(?:inbox\.)?"
    r"(?:sent(?:[ _-]?(?:mail|messages|items))?|gesendet(?:e (?:objekte|elemente|nachrichten))?"
    r"|(?:éléments |messages )?envoyés|(?:elementos |mensajes |itens )?enviad[oa]s"
    r"|(?:posta |elementi )?inviat[ai]|verzonden(?: items| berichten)?|skickat|sendt(?:e elementer)?"
    r"|lähetetyt|wysłane|отправленные|送信済み(?:メール)?|已发送(?:邮件)?)"
    r"(?:-\d+)?(?:\.mbox|\.eml)?",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?){2,}")


class Mbox(Source):
    """Files in mbox format: each message begins with a line `From …` after an empty one."""

    name: ClassVar[str] = "mbox"
    title: ClassVar[str] = "Mailbox (mbox)"
    channel: ClassVar[str] = "email"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(read_beginning(files, name, 5) == b"From " for name in files.names()[:100])

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(self.files.names(), cursor):
            if read_beginning(self.files, name, 5) != b"From ":
                continue
            try:
                with self.files.open(name) as stream:
                    for end, data, is_cut in _split(stream, start):
                        yield from mail_items(
                            data, self, name, f"{name}, mail that ends at byte {end}", is_cut
                        )
                        yield Mark(make_cursor(name, end))
            except (OSError, EOFError, ValueError) as error:
                yield SetAside(reason=f"the file is damaged: {error}", place=name)


class Maildir(Source):
    """A Maildir: one file per message in folders called `cur` and `new`. Folders of .eml files too."""

    name: ClassVar[str] = "maildir"
    title: ClassVar[str] = "Mail folder (Maildir or .eml files)"
    channel: ClassVar[str] = "email"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(map(_is_mail, files.names()))

    def read(self, cursor: str | None) -> Iterator[Item]:
        after, _ = parse_cursor(cursor)
        for name in self.files.names():
            if name <= after or not _is_mail(name):
                continue
            try:
                with self.files.open(name) as stream:
                    data = stream.read(_LARGEST_BYTES)
                yield from mail_items(data, self, name, name, len(data) == _LARGEST_BYTES)
            except (OSError, EOFError, ValueError) as error:
                yield SetAside(reason=f"the file is damaged: {error}", place=name)
            yield Mark(make_cursor(name, 0))


def _is_mail(name: str) -> bool:
    return name.endswith(".eml") or bool(re.search(r"(?:^|/)(?:cur|new)/[^/]+$", name))


def _split(stream: Any, start: int) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the messages of an mbox, each with the offset after it; a very large one is cut short."""
    kept: list[bytes] = []
    size, offset, was_empty = 0, start, True
    is_cut = False
    for end, line in read_lines(stream, start):
        if was_empty and line is not None and line.startswith(b"From ") and (kept or is_cut):
            yield offset, b"".join(kept), is_cut
            kept, size, is_cut = [], 0, False
        if line is None or size > _LARGEST_BYTES:
            is_cut = True
        elif not (was_empty and line.startswith(b"From ")):
            # mboxrd and mboxo both mark a `From ` inside of a message.
            kept.append(line[1:] if line.startswith(b">From ") else line)
            size += len(line)
        was_empty = line is not None and line in (b"\n", b"\r\n")
        offset = end
    if kept:
        yield offset, b"".join(kept), is_cut


def mail_items(data: bytes, source: Source, file: str, place: str, is_cut: bool) -> Iterator[Item]:
    """Yield one mail, as the thread it belongs to and a message."""
    try:
        mail = parser_process.read_mail(data)
    except UnreadableError as error:
        yield SetAside(reason=error.message, place=place)
        return
    ids = mail.ids("message-id")[:1]
    senders = _people(mail, "from", mail.is_automated) or _people(mail, "sender", mail.is_automated)
    if not (senders or ids):
        yield SetAside(reason="it is not a mail", place=place)
        return
    id_ = ids or [hashlib.sha256(data).hexdigest()]
    answered = mail.ids("in-reply-to")[:1]
    thread = (mail.ids("references") or answered or id_)[0]
    text, quoted = _strip_quotes(mail.text)
    sender = senders[0] if senders else None
    is_owner = sender is not None and source.options.is_owner(sender.identifier, sender.name)
    metadata: dict[str, Any] = {"subject": mail.subject} if mail.subject else {}
    if sender and is_owner and not _is_proven(mail, sender, source, file):
        is_owner, sender = False, _mark_unverified(sender)
        metadata["unverified_sender"] = True
    if quoted:
        metadata["quoted_lines_left_out"] = quoted
    if is_cut:
        metadata["cut_at_bytes"] = _LARGEST_BYTES
    yield Thread(external_id=thread, title=mime.plain_subject(mail.subject) or None, kind="email")
    yield Message(
        external_id=id_[0],
        thread=thread,
        author="owner" if is_owner else "person",
        sender=sender,
        recipients=_people(mail, "to"),
        copied=_people(mail, "cc"),
        content="\n\n".join(part for part in (mail.subject, text) if part) or "(empty)",
        at=parse_moment(mail.date),
        reply_to=answered[0] if answered else None,
        metadata=metadata,
        attachments=tuple(
            Attachment(name=each.name, media_type=each.media_type, size_bytes=len(each.data), data=each.data)
            for each in mail.parts
        ),
    )


def _is_proven(mail: Mail, sender: Person, source: Source, file: str) -> bool:
    """Whether a mail under the owner's address is the owner's."""
    domain = sender.identifier.rpartition("@")[2]
    return (
        source.options.trusts_from
        or _is_sent(mail, source.files, file)
        or mail_authentication.is_vouched_for_on_arrival(mail, domain)
    )


def _is_sent(mail: Mail, files: Files, file: str) -> bool:
    """Whether a mail was filed as sent: by the name of its folder, or by Gmail's labels."""
    if any(_SENT.fullmatch(part) for part in (*files.path.parts[-2:], *file.split("/"))):
        return True
    for name, value in mail.headers:
        if name == "received":
            return False  # what is below came with the mail
        if name == "x-gmail-labels":
            labels = " ".join(mime.decode_header(value, 20_000).split()).split(",")
            return any(_SENT.fullmatch(label.strip()) for label in labels)
    return False


def _mark_unverified(sender: Person) -> Person:
    """Somebody who uses an address of the owner's, and is nobody whom the memory knows by it."""
    return Person(identifier=f"unverified/{sender.identifier}", name=f"{sender.identifier} (unverified)")


def _people(mail: Mail, header: str, is_automated: bool = False) -> tuple[Person, ...]:
    found: dict[str, Person] = {}
    for each in mail.people[header][:_MOST_PEOPLE]:
        # An address that no mail could be answered to still tells who wrote.
        address = normalize_address(each.address) or each.address.strip()
        if "@" in address and len(address) < _LONGEST_ADDRESS:
            found[address] = Person(
                identifier=address,
                kind="email",
                name=each.name or None,
                is_automated=is_automated or mime.is_automated_address(address),
            )
    return tuple(found.values())


def _strip_quotes(body: str) -> tuple[str, int]:
    """Return the text without quotes of quotes, and how many lines those had."""
    kept: list[str] = []
    left_out = 0
    for line in body.replace("\r\n", "\n").split("\n"):
        if _QUOTE.match(line):
            left_out += 1
        else:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), left_out
