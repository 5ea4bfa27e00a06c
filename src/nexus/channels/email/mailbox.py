"""A mailbox over IMAP. Everything here blocks and belongs on a thread, except `close`."""

import imaplib
import re
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, cast

import imap_tools

_TIMEOUT_S: Final = 20.0
_MAX_MAIL_BYTES: Final = 40_000_000
"""What is read of one mail: room for attachments of 25 MB."""
_SINCE: Final = timedelta(days=1)
_UID: Final = re.compile(rb"\bUID (\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """Where a mail server listens. Without TLS only on this machine: see `kinds`."""

    host: str
    port: int
    tls: bool = True
    starttls: bool = False
    """Begin unencrypted, and encrypt before logging in."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Login:
    """What opens an account: a password, or an OAuth 2.0 access token."""

    user: str
    password: str = ""
    token: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How far a mailbox was read."""

    uid: int
    validity: int
    """UIDs mean the same mail while this stays the same."""
    at: str
    """When that was, as a date."""

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """The mark that was kept; None at first."""
        return None if value is None else cls(**cast("dict[str, Any]", value))

    def to_json(self) -> dict[str, Any]:
        return {"uid": self.uid, "validity": self.validity, "at": self.at}

    def advance_to(self, uid: int) -> "Mark":
        return replace(self, uid=uid, at=_today())


class Mailbox:
    """A connection to a mailbox. `close` may be called at any time, from any thread."""

    def __init__(self, server: Server, folder: str) -> None:
        self._server = server
        self._folder = folder
        self._box: imap_tools.BaseMailBox | None = None
        self._is_closed = False
        self._waiting = threading.Lock()
        self._status: dict[str, int] = {}
        self.can_idle = False

    def open(self, login: Login) -> "Mailbox":
        """Connect and log in. The folder is opened for reading only."""
        server = self._server
        box = _connect(server)
        self._box = box
        if self._is_closed:
            self.close()
        if login.token:
            box.xoauth2(login.user, login.token, initial_folder=None)
        else:
            log_in = box.login if login.user.isascii() and login.password.isascii() else box.login_utf8
            log_in(login.user, login.password, initial_folder=None)
        _, told = box.client.capability()
        self.can_idle = b"IDLE" in b" ".join(cast("list[bytes]", told)).upper().split()
        self._status = box.folder.status(self._folder, ["UIDVALIDITY", "UIDNEXT"])
        folder: Any = box.folder  # its types are incomplete
        folder.set(self._folder, readonly=True)
        return self

    def resume(self, mark: Mark | None) -> Mark:
        """Where to go on. At first, with the next mail that arrives: what is there already is not answered.

        If the server numbered its mail anew, with what came since shortly before the mark: what was taken in
        already is recognized.
        """
        validity, next_uid = self._status["UIDVALIDITY"], self._status["UIDNEXT"]
        if mark is None:
            return Mark(uid=next_uid - 1, validity=validity, at=_today())
        if mark.validity == validity:
            return mark
        since = datetime.fromisoformat(mark.at) - _SINCE
        # Not strftime: the month's name must be English in every locale.
        found = self._search("SINCE", imaplib.Time2Internaldate(since.replace(tzinfo=UTC))[1:12].strip())
        return Mark(uid=min(found, default=next_uid) - 1, validity=validity, at=mark.at)

    def find_after(self, mark: Mark) -> list[int]:
        """The UIDs of what came after the mark, in order."""
        # The last mail is always found, whatever its UID.
        return sorted(uid for uid in self._search("UID", f"{mark.uid + 1}:*") if uid > mark.uid)

    def fetch(self, uid: int) -> bytes | None:
        """A mail, cut off if it is very large; None if it is gone."""
        _, parts = self._client().uid("FETCH", str(uid), f"(BODY.PEEK[]<0.{_MAX_MAIL_BYTES}>)")
        for part in parts:
            if isinstance(part, tuple):
                head, body = cast("tuple[bytes, bytes]", part)
                found = _UID.search(head)
                if found is None or int(found[1]) == uid:
                    return body
        return None

    def fetch_newest(self) -> bytes | None:
        """The newest mail."""
        found = self._search("UID", "1:*")
        return self.fetch(max(found)) if found else None

    def wait(self, timeout_s: float) -> None:
        """Wait until something arrives, at most that long."""
        assert self._box is not None  # noqa: S101 - an invariant, for the reader and the type checker
        try:
            with self._waiting:
                if not self._is_closed:
                    self._box.idle.wait(timeout_s)
        finally:
            if self._is_closed:
                self._let_go()

    def close(self) -> None:
        """End the connection, and whatever waits on it."""
        self._is_closed = True
        if self._box is not None:
            with suppress(OSError):
                self._box.client.sock.shutdown(socket.SHUT_RDWR)
            # A thread may be about to wait for the socket by its number, which could be another's by then.
            if self._waiting.acquire(blocking=False):
                self._waiting.release()
                self._let_go()

    def _let_go(self) -> None:
        if self._box is not None:
            with suppress(OSError, imaplib.IMAP4.error):
                self._box.client.shutdown()

    def _search(self, *criteria: str) -> list[int]:
        _, found = self._client().uid("SEARCH", *criteria)
        return [int(uid) for part in cast("list[bytes | None]", found) for uid in (part or b"").split()]

    def _client(self) -> imaplib.IMAP4:
        assert self._box is not None  # noqa: S101 - an invariant, for the reader and the type checker
        return self._box.client


class _StartTls(imap_tools.BaseMailBox):
    """Unlike the library's own, hangs up if the server can't encrypt."""

    def __init__(self, server: Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        client = imaplib.IMAP4(self._server.host, self._server.port, timeout=_TIMEOUT_S)
        try:
            client.starttls(self._context)
        except BaseException:
            with suppress(OSError):
                client.shutdown()
            raise
        return client


def _connect(server: Server) -> imap_tools.BaseMailBox:
    if not server.tls:
        return imap_tools.MailBoxUnencrypted(server.host, server.port, timeout=_TIMEOUT_S)
    context = ssl.create_default_context()
    if not server.starttls:
        return imap_tools.MailBox(server.host, server.port, timeout=_TIMEOUT_S, ssl_context=context)
    return _StartTls(server, context)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
