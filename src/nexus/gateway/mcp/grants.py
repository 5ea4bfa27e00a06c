"""MCP clients elsewhere that the owner let in.

Tokens are kept as digests, keyed with the token of the home: whoever reads the file comes in nowhere,
a restart keeps the clients, and a new token of the home ends them all.
`nexus mcp revoke` changes the file beside the process that serves the home.
"""

import fcntl
import hmac
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pydantic import BaseModel, TypeAdapter, ValidationError

from nexus.home import PRIVATE_FILE, Home

_MOST: Final = 64


class Grant(BaseModel, frozen=True):
    """One client, and the digests of its tokens."""

    client_id: str
    name: str
    """What it calls itself, on one line."""
    returns_to: str
    """The host that the browser was sent back to."""
    registration: str
    created_at: float
    access: str = ""
    access_ends: float = 0.0
    refresh: str = ""
    refresh_ends: float = 0.0
    used: str = ""
    """The refresh token before. Whoever sends it again may have stolen it."""


_GRANTS: Final = TypeAdapter(dict[str, Grant])


class Grants:
    """The clients of one home. Everything here waits for the disk."""

    def __init__(self, home: Home) -> None:
        self._file: Final = home.run / "mcp-clients.json"
        self._key = hmac.digest(home.token().encode(), b"nexus mcp", "sha256")

    def digest(self, token: str) -> str:
        return hmac.new(self._key, token.encode(errors="surrogateescape"), "sha256").hexdigest()

    def load(self) -> dict[str, Grant]:
        """Read who is let in; nobody if the file is broken, who can sign in again."""
        try:
            return _GRANTS.validate_json(self._file.read_bytes())
        except (OSError, ValidationError):
            return {}

    def is_access_token(self, token: str) -> bool:
        digest = self.digest(token)
        return any(each.access == digest and each.access_ends > time.time() for each in self.load().values())

    @contextmanager
    def change(self) -> Generator[dict[str, Grant]]:
        """Change who is let in; two processes do so one after the other."""
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            before = self.load()
            grants = dict(before)
            yield grants
            if grants != before:
                _write(self._file, dict(list(grants.items())[-_MOST:]))
        finally:
            os.close(folder)


def _write(file: Path, grants: dict[str, Grant]) -> None:
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(_GRANTS.dump_json(grants))
    new.replace(file)
