"""The channel for mail: a mailbox is read over IMAP, and answers leave over SMTP.

Mail is read without marking, moving or deleting it. How far the mailbox was read is remembered after each
mail is on record, and a mail that is read again is recognized by its Message-ID. Going out, SMTP can't tell
whether a mail was accepted if the connection or the program ends in that moment: it is then sent again, under
the same Message-ID.
"""

import asyncio
import hashlib
import imaplib
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, Final, Literal, cast

import aiosmtplib
import imap_tools

from nexus.channels.adapter import (
    MAX_TEXT_BYTES,
    THIS_MACHINE,
    Capability,
    Delivery,
    DeliveryError,
    File,
    Inbox,
    Message,
    MessageError,
)
from nexus.channels.email.mailbox import Login, Mailbox, Mark, Server
from nexus.channels.text import render_html
from nexus.context.wrapping import without_history
from nexus.history import mail_authentication, mime, parser_process
from nexus.history.mail_addresses import normalize_address
from nexus.history.parser_process import UnreadableError
from nexus.text import join_lines

_POLL_S: Final = 60.0
"""How often a server without IDLE is asked, and how long IDLE is trusted."""
_TOKEN_TIMEOUT_S: Final = 30.0
_SMTP_TIMEOUT_S: Final = 30.0
_LONGEST_SUBJECT: Final = 80
_PERMANENT: Final = 500
_LOGO_BYTES: Final = 20_000
_LONGEST_TEXT: Final = MAX_TEXT_BYTES // 4
__all__ = ["Account", "Email", "Server"]
Protocol = Literal["IMAP", "SMTP"]
_PORTS: Final = {"IMAP": "993 (TLS) or 143 (STARTTLS)", "SMTP": "465 (TLS) or 587 (STARTTLS)"}
_WITHOUT: Final = "To a server on this machine, Nexus can also connect without encryption (`tls = false`)."
_NO_TLS: Final = ("TLS not supported", "Couldn't establish TLS session")
# How OpenSSL calls a first answer that is not TLS.
_ANSWERS_WITHOUT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
_UNTRUSTED: Final = "The certificate isn't signed by a trusted authority."
_OTHER_NAME: Final = "Use the name in the server's certificate, which your provider's help pages give."
# What to do, by OpenSSL's X509_V_ERR codes.
_CERTIFICATES: Final = {
    10: "The certificate has expired; the server's operator must renew it.",
    **dict.fromkeys((18, 19, 20, 21), _UNTRUSTED),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}


def explain(error: Exception, server: Server, login: Login, protocol: Protocol) -> DeliveryError:
    """The error to raise for what a library raised while it connected or logged in."""
    named = f"the {protocol} server {server.host}"
    unreachable = f"Can't reach {named}"
    ports = f"Check the port: {protocol} servers use {_PORTS[protocol]}."
    encrypts = f"{ports} {_WITHOUT}" if server.host in THIS_MACHINE else ports
    for each in _walk_causes(error):
        match each:
            case socket.gaierror():
                why = "the host name can't be resolved"
                return DeliveryError(
                    f"{unreachable}: {why}", hint="Check the server's name, and your network connection."
                )
            case ConnectionRefusedError():
                return DeliveryError(f"{unreachable}: port {server.port} refused the connection", hint=ports)
            case ssl.SSLCertVerificationError():
                return DeliveryError(
                    f"Can't trust {named}: {each.verify_message or each}",
                    hint=_CERTIFICATES.get(
                        each.verify_code, "Ask the server's operator about its certificate."
                    ),
                )
            case ssl.SSLError() if each.reason not in _ANSWERS_WITHOUT_TLS:
                why = (each.reason or str(each)).replace("_", " ").lower()
                return DeliveryError(f"The TLS handshake with {named} failed: {why}", hint=ports)
            case ssl.SSLError():
                return DeliveryError(
                    f"Can't encrypt the connection: {named} has no TLS on port {server.port}", hint=encrypts
                )
            case aiosmtplib.SMTPConnectResponseError():
                return DeliveryError(
                    f"The {protocol} server {server.host} refused the connection: {_server_words(each)}",
                    hint="It may refuse mail programs on your network: ask your provider.",
                )
            case TimeoutError() | aiosmtplib.SMTPTimeoutError():
                return DeliveryError(
                    f"{unreachable}: no answer on port {server.port}",
                    hint=f"{ports} A firewall may block it.",
                )
            case imap_tools.MailboxFolderSelectError() | imap_tools.MailboxFolderStatusError():
                return DeliveryError(
                    f"Can't open the mail folder on {named}: {_server_words(each)}", hint="Check `folder`."
                )
            case imaplib.IMAP4.error() if any(said in str(each) for said in _NO_TLS):
                return DeliveryError(
                    f"Can't encrypt the connection: {named} has no TLS on port {server.port}", hint=encrypts
                )
            case imaplib.IMAP4.abort():
                continue
            case (
                aiosmtplib.SMTPAuthenticationError() | imap_tools.MailboxLoginError() | imaplib.IMAP4.error()
            ):
                return _explain_refusal(each, login, named)
            case _:
                continue
    return DeliveryError(f"{unreachable} on port {server.port}: {error}")


def _explain_refusal(error: Exception, login: Login, named: str) -> DeliveryError:
    if login.token:
        given, hint = "access token", "Check `token_command`, and that the account allows mail programs."
    else:
        given = "password"
        hint = "Check the password. An account with two-step verification needs an app password."
    return DeliveryError(
        f"Can't log in as {login.user}: {named} refused the {given} ({_server_words(error)})", hint=hint
    )


def _server_words(error: Exception) -> str:
    """What the server said."""
    said: Any = error.args[0] if error.args else ""
    if isinstance(error, imap_tools.UnexpectedCommandStatusError):
        said = b" ".join(cast("Any", error).command_result[1])
    elif isinstance(error, aiosmtplib.SMTPResponseException):
        said = f"{error.code} {error.message}"
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return join_lines(text)


def _walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from: libraries wrap those of the system."""
    while error is not None:
        yield error
        error = error.__cause__


@dataclass(frozen=True, kw_only=True)
class Account:
    """A mail account, as the settings describe it."""

    address: str
    user: str
    password: str = ""
    token_command: Sequence[str] = ()
    imap: Server
    smtp: Server
    folder: str = "INBOX"
    auth_server: str = ""


class Email:
    """Reads a mailbox, and answers its mail."""

    capabilities: frozenset[Capability] = frozenset({"attachments", "markdown", "threads"})

    def __init__(self, account: Account, *, poll_s: float = _POLL_S) -> None:
        self._account = account
        self._poll_s = poll_s

    async def run(self, inbox: Inbox) -> None:
        """Hand over new mail until this is canceled."""
        account = self._account
        mailbox = Mailbox(account.imap, account.folder)
        try:
            opened = await self._open_mailbox(mailbox)
            mark = await asyncio.to_thread(opened.resume, Mark.of(await inbox.cursor()))
            await inbox.keep_cursor(mark.to_json())
            await inbox.connected()
            while True:
                for uid in await asyncio.to_thread(opened.find_after, mark):
                    await self._take_in(inbox, await asyncio.to_thread(opened.fetch, uid), uid)
                    mark = mark.advance_to(uid)
                    await inbox.keep_cursor(mark.to_json())
                if opened.can_idle:
                    await asyncio.to_thread(opened.wait, self._poll_s)
                else:
                    await asyncio.sleep(self._poll_s)
        finally:
            # A thread that waits for the server notices that its connection is gone.
            mailbox.close()

    async def deliver(self, delivery: Delivery) -> str | None:
        """Answer a mail."""
        account = self._account
        mail = compose_mail(delivery, account.address)
        await send_mail(mail, account.smtp, await self._load_login())
        return str(mail["Message-ID"]).strip("<>")

    async def newest_auth_server(self) -> str:
        """Who signs the Authentication-Results of the newest mail; empty if there is none. Logs in."""
        account = self._account
        mailbox = Mailbox(account.imap, account.folder)
        try:
            opened = await self._open_mailbox(mailbox)
            data = await asyncio.to_thread(opened.fetch_newest)
            return "" if data is None else await asyncio.to_thread(read_auth_server, data)
        finally:
            mailbox.close()

    async def check_sending(self) -> None:
        """Log in to the SMTP server, and send nothing."""
        await check_login(self._account.smtp, await self._load_login())

    async def _open_mailbox(self, mailbox: Mailbox) -> Mailbox:
        login = await self._load_login()
        try:
            return await asyncio.to_thread(mailbox.open, login)
        except (OSError, imaplib.IMAP4.error, imap_tools.ImapToolsError) as error:
            raise explain(error, self._account.imap, login, "IMAP") from error

    async def _take_in(self, inbox: Inbox, data: bytes | None, uid: int) -> None:
        if data is None:
            return  # Somebody deleted it meanwhile.
        try:
            message = await asyncio.to_thread(self._parse_message, data)
        except MessageError as error:
            await inbox.set_aside({"id": f"uid {uid}", "sender": ""}, str(error))
        else:
            if message is not None:
                await inbox.receive(message)

    def _parse_message(self, data: bytes) -> Message | None:
        account = self._account
        own = frozenset({normalize_address(account.address), normalize_address(account.user)} - {""})
        return parse_message(data, own=own, auth_server=account.auth_server)

    async def _load_login(self) -> Login:
        account = self._account
        if not account.token_command:
            return Login(user=account.user, password=account.password)
        return Login(user=account.user, token=await _read_token(account.token_command))


def compose_mail(delivery: Delivery, address: str) -> EmailMessage:
    """Write the mail of a delivery, with the same Message-ID for every attempt.

    It is marked as automatic, so that no other program answers it.
    """
    to, root = _read_place(delivery)
    mail = EmailMessage()
    mail["From"] = address
    mail["To"] = to
    opening = " ".join(delivery.text.strip(" *#\n").partition("\n")[0].split())[:_LONGEST_SUBJECT]
    unanswered = "Your message" if delivery.reply_to or not opening else opening.rstrip(" *")
    mail["Subject"] = f"Re: {delivery.title}" if delivery.title else unanswered
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{delivery.key}@{address.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-replied"
    mail["X-Auto-Response-Suppress"] = "All"
    answered = delivery.reply_to or root
    mail["In-Reply-To"] = f"<{answered}>"
    mail["References"] = " ".join(f"<{each}>" for each in dict.fromkeys([root, answered]))
    mail.set_content(delivery.text)
    mail.add_alternative(render_html(delivery.text), subtype="html")
    for file in delivery.files:
        main, _, sub = file.media_type.partition("/")
        mail.add_attachment(file.data, maintype=main, subtype=sub or "octet-stream", filename=file.name)
    return mail


async def send_mail(mail: EmailMessage, server: Server, login: Login) -> None:
    """Hand a mail to the server."""
    try:
        async with _make_client(server, login) as client:
            await client.send_message(mail)
    except aiosmtplib.SMTPRecipientsRefused as error:
        [refused, *_] = error.recipients
        raise DeliveryError(str(refused), final=refused.code >= _PERMANENT) from error
    except (aiosmtplib.SMTPDataError, aiosmtplib.SMTPSenderRefused) as error:
        raise DeliveryError(str(error), final=error.code >= _PERMANENT) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise explain(error, server, login, "SMTP") from error


async def check_login(server: Server, login: Login) -> None:
    """Log in, and send nothing."""
    try:
        async with _make_client(server, login):
            pass
    except (aiosmtplib.SMTPException, OSError) as error:
        raise explain(error, server, login, "SMTP") from error


def _make_client(server: Server, login: Login) -> aiosmtplib.SMTP:
    async def token() -> str:
        return login.token

    return aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        username=login.user,
        password=login.password or None,
        oauth_token_generator=token if login.token else None,
        use_tls=server.tls and not server.starttls,
        start_tls=server.tls and server.starttls,
        timeout=_SMTP_TIMEOUT_S,
    )


def _read_place(delivery: Delivery) -> tuple[str, str]:
    """To whom it goes, and the first mail of its conversation. Never to others than who wrote."""
    to, _, root = delivery.thread.rpartition(" ")
    to = to or delivery.to or ""
    if not to:
        raise DeliveryError("The mail has no recipient", final=True)
    return to, root


def parse_message(data: bytes, *, own: frozenset[str], auth_server: str) -> Message | None:
    """A mail as a message; None for what the agent sent itself. MessageError if it can't be read.

    Blocking: another process reads it. `own` are addresses as `normalize_address` gives them.
    """
    mail = _read_mail(data)
    senders = mail.people["from"]
    sender = normalize_address(senders[0].address) if senders else ""
    if not sender:
        raise MessageError("The mail has no sender")
    if sender in own:
        return None
    own = own | set(_read_addresses(mail, "delivered-to"))
    to = _read_addresses(mail, "to")
    others = {*to, *_read_addresses(mail, "cc")} - own - {sender}
    ids = mail.ids("message-id")
    id_ = ids[0] if ids else hashlib.sha256(data).hexdigest()
    before = [*mail.ids("references"), *mail.ids("in-reply-to")]
    root = before[0] if before else id_
    files = tuple(file for part in mail.parts if (file := _build_file(part)) is not None)
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


def read_auth_server(data: bytes) -> str:
    """The name under which the receiving server wrote what it found out about the sender. Blocking."""
    return mail_authentication.server_of(_read_mail(data).headers)


def _read_mail(data: bytes) -> mime.Mail:
    try:
        return parser_process.read_mail(data)
    except UnreadableError as error:
        raise MessageError(error.message) from error


def _read_addresses(mail: mime.Mail, header: str) -> list[str]:
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


def _build_file(part: mime.Part) -> File | None:
    is_logo = part.is_shown and part.media_type.startswith("image/") and len(part.data) < _LOGO_BYTES
    if not part.data or is_logo:
        return None  # Signatures have logos.
    name = part.name or part.media_type.replace("/", ".")
    return File(name=name, media_type=part.media_type, data=part.data)


async def _read_token(command: Sequence[str]) -> str:
    """The access token that a program of the owner's prints."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise DeliveryError(f"token_command: {command[0]} could not be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(_TOKEN_TIMEOUT_S):
            out, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    token = out.decode(errors="replace").strip()
    if process.returncode or not token:
        raise DeliveryError(f"token_command: {command[0]} printed no token (exit code {process.returncode})")
    return token
