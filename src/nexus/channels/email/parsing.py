"""From a mail, as a server hands it over, to a message of the channel."""

import email.parser
import email.utils
import hashlib
import re
from collections.abc import Iterator
from email.message import Message as Mail
from typing import Any, Final, cast

from nexus.channels.adapter import MAX_TEXT_BYTES, File, Message, MessageError
from nexus.channels.email import quoting
from nexus.history import mail_authentication, mime

_MOST_PARTS: Final = 200
_LOGO_BYTES: Final = 20_000
_LONGEST_TEXT: Final = MAX_TEXT_BYTES // 4
_ADDRESS: Final = re.compile(r"[^\s<>@,;:\"()\[\]\\]{1,64}@[^\s<>@,;:\"()\[\]\\]{1,253}")


def message(data: bytes, *, own: frozenset[str], auth_server: str) -> Message | None:
    """A mail as a message; None for what the agent sent itself. MessageError if it can't be read."""
    try:
        return _message(data, own, auth_server)
    except MessageError:
        raise
    except Exception as error:  # the parser meets whatever anybody ever sends
        raise MessageError(f"The mail can't be read: {type(error).__name__}") from error


def auth_server(data: bytes) -> str:
    """The name under which the receiving server wrote what it found out about the sender."""
    return mail_authentication.server_of(email.parser.BytesHeaderParser().parsebytes(data))


def _message(data: bytes, own: frozenset[str], auth_server: str) -> Message | None:
    mail = email.parser.BytesParser().parsebytes(data)
    name, sender = _sender(mail)
    if sender in own:
        return None
    own = own | set(_addresses(mail, "Delivered-To"))
    to = _addresses(mail, "To")
    others = {*to, *_addresses(mail, "Cc")} - own - {sender}
    ids = mime.message_ids(mail, "Message-ID")
    id_ = ids[0] if ids else hashlib.sha256(data).hexdigest()
    before = [*mime.message_ids(mail, "References"), *mime.message_ids(mail, "In-Reply-To")]
    root = before[0] if before else id_
    text, files = _content(mail)
    subject = mime.header(mail, "Subject")
    # The subject of a reply says nothing new.
    said = quoting.without_history(text) if before else "\n\n".join(filter(None, [subject, text]))
    return Message(
        id=id_,
        # Who knows the id of somebody's mail must not get into their conversation with it.
        thread=root if others else f"{sender} {root}",
        sender=sender,
        sender_name=name or None,
        text=said[:_LONGEST_TEXT] or ("" if files else "(empty)"),
        title=mime.plain_subject(subject) or None,
        is_group=bool(others),
        is_addressed=not others or not own.isdisjoint(to),
        is_verified=_has_one_sender(mail)
        and mail_authentication.is_vouched_for(mail, _domain(sender), auth_server),
        is_automatic=_is_automatic(mail, sender),
        files=files,
    )


def _sender(mail: Mail) -> tuple[str, str]:
    found = email.utils.getaddresses([str(mail.get("From", ""))[:20_000]])
    for name, address in found[:1]:
        if _ADDRESS.fullmatch(address):
            return mime.decoded(name), address.casefold()
    raise MessageError("The mail has no sender")


def _has_one_sender(mail: Mail) -> bool:
    values = [str(value) for value in cast("list[Any]", mail.get_all("From", []))]
    return len(values) == 1 and len(email.utils.getaddresses(values)) == 1


def _domain(address: str) -> str:
    return address.rpartition("@")[2]


def _addresses(mail: Mail, header: str) -> list[str]:
    raw = [str(value)[:20_000] for value in cast("list[Any]", mail.get_all(header, []))]
    found = (address.casefold() for _, address in email.utils.getaddresses(raw)[:200])
    return [address for address in found if _ADDRESS.fullmatch(address)]


def _is_automatic(mail: Mail, sender: str) -> bool:
    """Whether answering could start a loop: a list, a bounce, an auto-reply, an address nobody reads."""
    return (
        mime.is_automated(mail)
        or mime.is_automated_address(sender)
        or str(mail.get("Return-Path", "")).strip() == "<>"
        or mail.get_content_type() == "multipart/report"
    )


def _content(mail: Mail) -> tuple[str, tuple[File, ...]]:
    plain: list[str] = []
    html: list[str] = []
    files: list[File] = []
    for part in _parts(mail):
        kind, name = part.get_content_type(), part.get_filename()
        is_attached = bool(name) or part.get_content_disposition() == "attachment"
        if kind == "text/html" and not is_attached:
            html.append(mime.part_text(part))
        elif kind == "text/plain" and not is_attached:
            plain.append(mime.part_text(part))
        elif (file := _file(part, kind, name)) is not None:
            files.append(file)
    text = "\n".join(plain).strip() or mime.text_of_html("\n".join(html))
    return text.replace("\r\n", "\n"), tuple(files)


def _parts(mail: Mail) -> Iterator[Mail]:
    """The parts that hold something, in order. A mail inside of a mail is one part."""
    waiting, seen = [mail], 0
    while waiting and seen < _MOST_PARTS:
        part = waiting.pop()
        seen += 1
        inner: Any = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(inner, list):
            waiting += reversed(cast("list[Mail]", inner))
        else:
            yield part


def _file(part: Mail, kind: str, name: str | None) -> File | None:
    inner: Any = part.get_payload()
    if isinstance(inner, list):
        data = b"\n".join(each.as_bytes() for each in cast("list[Mail]", inner))
        name = name or "mail.eml"
    else:
        found = part.get_payload(decode=True)
        data = found if isinstance(found, bytes) else b""
    is_shown = part.get_content_disposition() == "inline" or part.get("Content-ID") is not None
    if not data or (is_shown and kind.startswith("image/") and len(data) < _LOGO_BYTES):
        return None  # Signatures have logos.
    return File(name=mime.decoded(name or kind.replace("/", ".")), media_type=kind, data=data)
