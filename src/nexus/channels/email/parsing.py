"""From a mail, as a server hands it over, to a message of the channel."""

import hashlib
from typing import Final

from nexus.channels.adapter import MAX_TEXT_BYTES, File, Message, MessageError
from nexus.context.wrapping import without_history
from nexus.history import mail_authentication, mime, parser_process
from nexus.history.mail_addresses import normalize_address
from nexus.history.parser_process import UnreadableError

_LOGO_BYTES: Final = 20_000
_LONGEST_TEXT: Final = MAX_TEXT_BYTES // 4


def message(data: bytes, *, own: frozenset[str], auth_server: str) -> Message | None:
    """A mail as a message; None for what the agent sent itself. MessageError if it can't be read.

    Blocking: another process reads it. `own` are addresses as `normalize_address` gives them.
    """
    mail = _read(data)
    senders = mail.people["from"]
    sender = normalize_address(senders[0].address) if senders else ""
    if not sender:
        raise MessageError("The mail has no sender")
    if sender in own:
        return None
    own = own | set(_addresses(mail, "delivered-to"))
    to = _addresses(mail, "to")
    others = {*to, *_addresses(mail, "cc")} - own - {sender}
    ids = mail.ids("message-id")
    id_ = ids[0] if ids else hashlib.sha256(data).hexdigest()
    before = [*mail.ids("references"), *mail.ids("in-reply-to")]
    root = before[0] if before else id_
    files = tuple(file for part in mail.parts if (file := _file(part)) is not None)
    # The subject of a reply says nothing new.
    said = without_history(mail.text) if before else "\n\n".join(filter(None, [mail.subject, mail.text]))
    is_only_sender = len(mail.get_all("from")) == len(senders) == 1
    return Message(
        id=id_,
        # Who knows the id of somebody's mail must not get into their conversation with it.
        thread=root if others else f"{sender} {root}",
        sender=sender,
        sender_name=senders[0].name or None,
        text=said[:_LONGEST_TEXT] or ("" if files else "(empty)"),
        title=mime.plain_subject(mail.subject) or None,
        is_group=bool(others),
        is_addressed=not others or not own.isdisjoint(to),
        is_verified=is_only_sender
        and mail_authentication.is_vouched_for(mail.headers, sender.rpartition("@")[2], auth_server),
        is_automatic=_is_automatic(mail, sender),
        files=files,
    )


def auth_server(data: bytes) -> str:
    """The name under which the receiving server wrote what it found out about the sender. Blocking."""
    return mail_authentication.server_of(_read(data).headers)


def _read(data: bytes) -> mime.Mail:
    try:
        return parser_process.read_mail(data)
    except UnreadableError as error:
        raise MessageError(error.message) from error


def _addresses(mail: mime.Mail, header: str) -> list[str]:
    found = (normalize_address(each.address) for each in mail.people[header])
    return [address for address in found if address]


def _is_automatic(mail: mime.Mail, sender: str) -> bool:
    """Whether answering could start a loop: a list, a bounce, an auto-reply, an address nobody reads."""
    return (
        mail.is_automated
        or mime.is_automated_address(sender)
        or mail.get("return-path").strip() == "<>"
        or mail.media_type == "multipart/report"
    )


def _file(part: mime.Part) -> File | None:
    is_logo = part.is_shown and part.media_type.startswith("image/") and len(part.data) < _LOGO_BYTES
    if not part.data or is_logo:
        return None  # Signatures have logos.
    name = part.name or part.media_type.replace("/", ".")
    return File(name=name, media_type=part.media_type, data=part.data)
