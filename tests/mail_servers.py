"""Real mail servers for tests: Dovecot keeps the agent's mailbox, an SMTP server takes and delivers mail.

The SMTP server does what a receiving one does: it notes whether the sender of a mail is who the From says.
Here somebody is who they say if they logged in.
"""

import imaplib
import json
import os
import pwd
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message as Mail
from email.utils import parseaddr
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from certificates import certify
from ports import free_port

AGENT: Final = "agent@nexus.example"
PASSWORD: Final = "open-sesame"
TOKEN: Final = "an-access-token"
AUTH_SERVER: Final = "mx.nexus.example"
_PATIENCE_S: Final = 60
_CONFIG: Final = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
ssl = {ssl}
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = {needs_tls}
auth_mechanisms = plain login xoauth2
mail_location = maildir:{folder}/mail
first_valid_uid = 1
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {folder}/oauth2.conf
}}
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
    port = {tls_port}
    ssl = yes
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
    """A mailbox for the agent. `stop` and `start` keep its mail. With `tls`, nobody logs in unencrypted."""

    def __init__(self, *, tls: bool = False, tokens: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
        self.port, self.tls_port = free_port(), free_port() if tls else 0
        self._is_encrypted = tls
        self.certificate = self.folder / "cert.pem"
        certify(self.certificate, self.folder / "key.pem")
        (self.folder / "oauth2.conf").write_text(
            f"tokeninfo_url = {tokens or 'http://127.0.0.1:1/'}?access_token=\nusername_attribute = user\n"
        )
        account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        group = subprocess.run(["id", "-gn", account.pw_name], capture_output=True, text=True).stdout.strip()
        self._config = self.folder / "dovecot.conf"
        self._config.write_text(
            _CONFIG.format(
                folder=self.folder,
                user=account.pw_name,
                group=group,
                port=self.port,
                tls_port=self.tls_port,
                password=PASSWORD,
                ssl="required" if tls else "no",
                needs_tls="yes" if tls else "no",
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
        client = imaplib.IMAP4("127.0.0.1", self.port, timeout=_PATIENCE_S)
        if self._is_encrypted:
            client.starttls(ssl.create_default_context(cafile=str(self.certificate)))
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


class Tokens:
    """What a mail server asks whether an access token is valid, and whose it is."""

    def __init__(self) -> None:
        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_right = self.path.endswith(f"access_token={TOKEN}")
                data = json.dumps({"user": AGENT} if is_right else {"error": "invalid_token"}).encode()
                self.send_response(200 if is_right else 401)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Post:
    """An SMTP server: delivers mail for the agent to its mailbox, and keeps what goes to others."""

    def __init__(self, dovecot: Dovecot, tls: Literal["", "starttls", "implicit"] = "") -> None:
        self.sent: list[Mail] = []
        self.refusing = ""
        """What the server says instead of taking a mail."""
        self._dovecot = dovecot
        self._lock = threading.Lock()
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=free_port(),
            ready_timeout=_PATIENCE_S,
            authenticator=_authenticated,
            data_size_limit=100_000_000,
            **self._tls(tls),
        )
        self.port: int = self._controller.port

    def _tls(self, kind: str) -> dict[str, Any]:
        if not kind:
            return {"auth_require_tls": False}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._dovecot.certificate, self._dovecot.folder / "key.pem")
        if kind == "implicit":
            # The server looks for STARTTLS only, and this connection is encrypted from its start.
            return {"ssl_context": context, "auth_require_tls": False}
        return {"tls_context": context, "require_starttls": True}

    def start(self) -> None:
        self._controller.start()

    def close(self) -> None:
        self._controller.stop(no_assert=True)

    async def auth_XOAUTH2(self, server: Any, args: list[str]) -> AuthResult:  # noqa: N802 - aiosmtpd's name
        user, token, *_ = b64decode(args[1]).decode().split("\x01")
        if token != f"auth=Bearer {TOKEN}":
            return AuthResult(success=False, handled=False)
        return AuthResult(success=True, auth_data=user.removeprefix("user="))

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
