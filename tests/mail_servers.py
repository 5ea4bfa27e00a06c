"""Real mail servers for tests: Dovecot keeps the agent's mailbox, an SMTP server takes and delivers mail.

The SMTP server does what a receiving one does: it notes whether the sender of a mail is who the From says.
Here somebody is who they say if they logged in.
"""

import imaplib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message as Mail
from email.utils import parseaddr
from pathlib import Path
from typing import Any, Final

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

AGENT: Final = "agent@nexus.example"
PASSWORD: Final = "open-sesame"
AUTH_SERVER: Final = "mx.nexus.example"
_PATIENCE_S: Final = 60
_CONFIG: Final = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail
first_valid_uid = 1
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""


class Dovecot:
    """A mailbox for the agent. `stop` and `start` keep its mail."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
        self.port = _free_port()
        account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        group = subprocess.run(["id", "-gn", account.pw_name], capture_output=True, text=True).stdout.strip()
        self._config = self.folder / "dovecot.conf"
        self._config.write_text(
            _CONFIG.format(
                folder=self.folder, user=account.pw_name, group=group, port=self.port, password=PASSWORD
            )
        )
        self.folder.chmod(0o755)
        (self.folder / "mail").mkdir()
        os.chown(self.folder / "mail", account.pw_uid, account.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("dovecot") or "/usr/sbin/dovecot"
        self._process = subprocess.Popen([program, "-F", "-c", str(self._config)])
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self.client().logout()
            except (OSError, imaplib.IMAP4.abort):
                assert time.monotonic() < end, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> imaplib.IMAP4:
        client = imaplib.IMAP4("127.0.0.1", self.port, timeout=10)
        client.login(AGENT, PASSWORD)
        return client

    def append(self, data: bytes) -> None:
        """Put a mail into the mailbox, as a delivering server does."""
        client = self.client()
        try:
            status, told = client.append("INBOX", "", "", data)
            assert status == "OK", told
        finally:
            client.logout()

    def forget_numbers(self) -> None:
        """Let the server number its mail anew, as after a restore: UIDVALIDITY changes."""
        for name in ("dovecot-uidlist", "dovecot.index.log", "dovecot.index", "dovecot.index.cache"):
            (self.folder / "mail" / name).unlink(missing_ok=True)
        for old in (self.folder / "mail").glob("dovecot-uidvalidity*"):
            old.unlink()


class Post:
    """An SMTP server: delivers mail for the agent to its mailbox, and keeps what goes to others."""

    def __init__(self, dovecot: Dovecot) -> None:
        self.sent: list[Mail] = []
        self.refusing = ""
        """What the server says instead of taking a mail."""
        self._dovecot = dovecot
        self._lock = threading.Lock()
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=_free_port(),
            authenticator=_authenticated,
            auth_require_tls=False,
            data_size_limit=100_000_000,
        )
        self.port: int = self._controller.port

    def start(self) -> None:
        self._controller.start()

    def close(self) -> None:
        self._controller.stop(no_assert=True)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        with self._lock:
            data: bytes = envelope.content
            mail = message_from_bytes(data)
            for recipient in envelope.rcpt_tos:
                if recipient == AGENT:
                    self._dovecot.append(_judged(data, mail, session.auth_data))
                elif self.refusing:
                    return self.refusing
                else:
                    self.sent.append(mail)
        return "250 OK"

    def texts(self) -> list[str]:
        return [text_of(mail) for mail in self.sent]


def text_of(mail: Mail) -> str:
    """The plain text of a mail."""
    part = next(each for each in mail.walk() if each.get_content_type() == "text/plain")
    data = part.get_payload(decode=True)
    assert isinstance(data, bytes)
    return data.decode().replace("\r\n", "\n").strip()


@contextmanager
def mail_servers() -> Generator[tuple[Dovecot, Post]]:
    """Both, running. The test is skipped where Dovecot isn't installed."""
    if shutil.which("dovecot") is None and not Path("/usr/sbin/dovecot").exists():
        pytest.skip("needs Dovecot: apt-get install dovecot-imapd")
    dovecot = Dovecot()
    post = Post(dovecot)
    try:
        dovecot.start()
        post.start()
        yield dovecot, post
    finally:
        post.close()
        dovecot.close()


def _authenticated(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    if not isinstance(data, LoginPassword) or data.password != PASSWORD.encode():
        return AuthResult(success=False, handled=False)
    return AuthResult(success=True, auth_data=data.login.decode())


def _judged(data: bytes, mail: Mail, login: str | None) -> bytes:
    domain = parseaddr(str(mail["From"]))[1].rpartition("@")[2]
    is_theirs = login is not None and login.rpartition("@")[2] == domain
    verdict = "pass" if is_theirs else "fail"
    header = f"Authentication-Results: {AUTH_SERVER}; dmarc={verdict} (p=NONE) header.from={domain}\r\n"
    return header.encode() + data


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
