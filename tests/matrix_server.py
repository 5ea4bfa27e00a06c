"""A real Matrix homeserver, Synapse, for tests."""

import asyncio
import hashlib
import hmac
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final, cast

import httpx
import nio  # pyright: ignore[reportMissingTypeStubs] - it ships none

from ports import free_port

NAME: Final = "matrix.example"
_PATIENCE_S: Final = 120
_SECRET: Final = "only the tests register accounts"
_LIMIT: Final = "{per_second: 10000, burst_count: 10000}"
_CONFIG: Final = """
server_name: {name}
pid_file: {folder}/pid
public_baseurl: http://127.0.0.1:{port}/
listeners:
  - {{port: {port}, type: http, bind_addresses: [127.0.0.1], resources: [{{names: [client, media]}}]}}
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
media_store_path: {folder}/media
signing_key_path: {folder}/signing.key
log_config: {folder}/log.yaml
registration_shared_secret: "{secret}"
enable_registration: false
report_stats: false
trusted_key_servers: []
federation_domain_whitelist: []
bcrypt_rounds: 4
macaroon_secret_key: "a secret of the tests"
form_secret: "another secret of the tests"
max_upload_size: 60M
presence: {{enabled: false}}
rc_message: {limit}
rc_registration: {limit}
rc_joins: {{local: {limit}, remote: {limit}}}
rc_joins_per_room: {limit}
rc_invites: {{per_room: {limit}, per_user: {limit}, per_issuer: {limit}}}
rc_login: {{address: {limit}, account: {limit}, failed_attempts: {limit}}}
rc_room_creation: {limit}
"""
_LOG: Final = """
version: 1
handlers: {{file: {{class: logging.FileHandler, filename: "{folder}/log"}}}}
root: {{level: WARNING, handlers: [file]}}
"""


class Synapse:
    """A homeserver on this machine, with accounts for whoever a test needs. `stop` and `start` keep them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="synapse-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        values = {"folder": self.folder, "port": self.port, "name": NAME, "secret": _SECRET, "limit": _LIMIT}
        (self.folder / "homeserver.yaml").write_text(_CONFIG.format(**values))
        (self.folder / "log.yaml").write_text(_LOG.format(folder=self.folder))
        seed = b64encode(token_bytes(32)).decode().rstrip("=")
        (self.folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "synapse.app.homeserver", "-c", str(self.folder / "homeserver.yaml")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def register(self, user: str) -> "Person":
        """Make an account."""
        place = f"{self.url}/_synapse/admin/v1/register"
        nonce = httpx.get(place, timeout=60).raise_for_status().json()["nonce"]
        said = f"{nonce}\0{user}\0{user}-password\0notadmin".encode()
        mac = hmac.new(_SECRET.encode(), said, hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": user, "password": f"{user}-password", "admin": False, "mac": mac}
        made = httpx.post(place, json=body, timeout=60).raise_for_status().json()
        return Person(self, made["user_id"], made["access_token"])

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/_matrix/client/versions", timeout=5).is_success
        except httpx.HTTPError:
            return False


class Person:
    """Somebody with an account, and a client of theirs."""

    def __init__(self, server: Synapse, id_: str, token: str) -> None:
        self.id = id_
        self.token = token
        self._server = server
        self._since: str | None = None
        self._typing: dict[str, list[str]] = {}

    def open_room(
        self, *invited: str, direct: bool = True, name: str | None = None, encrypted: bool = False
    ) -> str:
        """Make a room; returns its id."""
        state = [nio.EnableEncryptionBuilder().as_dict()] if encrypted else []
        return self._do(
            lambda client: client.room_create(
                invite=list(invited),
                is_direct=direct,
                name=name,
                preset=nio.RoomPreset.trusted_private_chat if direct else nio.RoomPreset.private_chat,
                initial_state=state,
            )
        ).room_id

    def join(self, room_id: str) -> None:
        self._do(lambda client: client.join(room_id))

    def invite(self, room_id: str, user_id: str) -> None:
        self._do(lambda client: client.room_invite(room_id, user_id))

    def say(self, room_id: str, text: str, *, kind: str = "m.room.message", **more: Any) -> str:
        """Write something; returns the id of the event."""
        content = {"msgtype": "m.text", "body": text, **more}
        return self._do(lambda client: client.room_send(room_id, kind, content)).event_id

    def attach(self, room_id: str, name: str, data: bytes, media_type: str, **more: Any) -> str:
        """Send a file; returns the id of the event."""

        async def upload(client: nio.AsyncClient) -> Any:
            return (
                await client.upload(BytesIO(data), content_type=media_type, filename=name, filesize=len(data))
            )[0]

        url = self._do(upload).content_uri
        info = {"mimetype": media_type, "size": len(data)}
        content: dict[str, Any] = {"msgtype": "m.file", "url": url, "info": info, **more}
        return self.say(room_id, name, **content)

    def heard(self, room_id: str) -> list[dict[str, Any]]:
        """What others wrote in a room, in order: events with `content`, `event_id` and so on."""
        told = self._do(lambda client: client.room_messages(room_id, limit=1_000))
        events = [cast("dict[str, Any]", each.source) for each in reversed(told.chunk)]
        return [each for each in events if each["type"] == "m.room.message" and each["sender"] != self.id]

    def sees_typing(self, room_id: str, user_id: str) -> bool:
        """Whether somebody is typing in a room."""
        told = self._do(lambda client: client.sync(timeout=0, since=self._since))
        self._since = told.next_batch
        for id_, joined in told.rooms.join.items():
            for each in joined.ephemeral:
                if isinstance(each, nio.TypingNoticeEvent):
                    self._typing[id_] = cast("Any", each).users
        return user_id in self._typing.get(room_id, [])

    def texts(self, room_id: str) -> list[str]:
        return [each["content"]["body"] for each in self.heard(room_id)]

    def download(self, url: str) -> bytes:
        async def download(client: Any) -> Any:
            return await client.download(mxc=url)

        return self._do(download).body

    def _do(self, work: Callable[[nio.AsyncClient], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            config = nio.AsyncClientConfig(encryption_enabled=False)
            client = nio.AsyncClient(self._server.url, self.id, config=config)
            client.access_token = self.token
            try:
                told = await work(client)
            finally:
                await client.close()
            assert not isinstance(told, nio.ErrorResponse), told
            return told

        return asyncio.run(run())


@contextmanager
def homeserver() -> Generator[Synapse]:
    """A homeserver, running."""
    made = Synapse()
    try:
        made.start()
        yield made
    finally:
        made.close()
