"""The channel for mail: a mailbox is read over IMAP, and answers leave over SMTP.

Mail is read without marking, moving or deleting it. How far the mailbox was read is remembered after each
mail is on record, and a mail that is read again is recognized by its Message-ID. Going out, SMTP can't tell
whether a mail was accepted if the connection or the program ends in that moment: it is then sent again, under
the same Message-ID.
"""

import asyncio
import imaplib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import imap_tools

from nexus.channels.adapter import Capability, Delivery, DeliveryError, Inbox, Message, MessageError
from nexus.channels.email import parsing, sending
from nexus.channels.email.failures import explain
from nexus.channels.email.mailbox import Login, Mailbox, Mark, Server
from nexus.history.mail_addresses import normalize_address

_POLL_S: Final = 60.0
"""How often a server without IDLE is asked, and how long IDLE is trusted."""
_TOKEN_TIMEOUT_S: Final = 30.0


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
        mail = sending.compose_mail(delivery, account.address)
        await sending.send_mail(mail, account.smtp, await self._load_login())
        return str(mail["Message-ID"]).strip("<>")

    async def newest_auth_server(self) -> str:
        """Who signs the Authentication-Results of the newest mail; empty if there is none. Logs in."""
        account = self._account
        mailbox = Mailbox(account.imap, account.folder)
        try:
            opened = await self._open_mailbox(mailbox)
            data = await asyncio.to_thread(opened.fetch_newest)
            return "" if data is None else await asyncio.to_thread(parsing.read_auth_server, data)
        finally:
            mailbox.close()

    async def check_sending(self) -> None:
        """Log in to the SMTP server, and send nothing."""
        await sending.check_login(self._account.smtp, await self._load_login())

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
        return parsing.parse_message(data, own=own, auth_server=account.auth_server)

    async def _load_login(self) -> Login:
        account = self._account
        if not account.token_command:
            return Login(user=account.user, password=account.password)
        return Login(user=account.user, token=await _read_token(account.token_command))


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


__all__ = ["Account", "Email", "Server"]
