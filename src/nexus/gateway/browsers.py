"""The browsers that are logged in.

The file keeps only digests that a key made from the token signs: whoever reads it comes in nowhere, a
restart keeps the browsers, and a new token ends them all. Without a file they are kept in memory.
"""

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from nexus.home import PRIVATE_FILE
from nexus.secrets import digest

LINK_S: Final = 600
_LINKS_KEPT: Final = 16


class Keys:
    """Every comparison takes the same time for a right and a wrong secret."""

    def __init__(
        self, token: str, now: Callable[[], float] = time.time, *, port: int = 0, file: Path | None = None
    ) -> None:
        self._token = digest(token)
        self._now = now
        self._links: dict[bytes, float] = {}
        self.browsers: Final = Browsers(hmac.digest(token.encode(), b"nexus browser", "sha256"), file, now)
        # Cookies know no port: each home and each place where it is served has one of its own.
        self.cookie: Final = f"nexus_{port}_{hashlib.sha256(self._token).hexdigest()[:12]}"

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(digest(given), self._token)

    def new_code(self) -> str:
        """The code of a login link: it works once, and for ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[digest(code)] = self._now() + LINK_S
        while len(self._links) > _LINKS_KEPT:
            del self._links[next(iter(self._links))]
        return code

    def is_code(self, code: str) -> bool:
        """Whether a login link may be used; with that it has been."""
        return self._links.pop(digest(code), 0.0) >= self._now()


SESSION_S: Final = 7 * 86_400
"""A browser is logged in for so long at most."""
IDLE_S: Final = 86_400
"""It is logged out when it asks for nothing for so long."""
_MOST: Final = 64


class Browsers:
    """Each has a secret of its own, which opens this home alone and can be made worthless."""

    def __init__(self, key: bytes, file: Path | None, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._file = file
        self._now = now
        self._ends = _read(file)
        self._seen: dict[str, float] = dict.fromkeys(self._ends, now())
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return sum(self._is_alive(digest) for digest in tuple(self._ends))

    def add(self) -> str:
        """Log a browser in: its secret. Like all that changes who is logged in, it waits for the disk."""
        secret = secrets.token_urlsafe(32)
        digest = self._digest(secret)
        with self._changing:
            alive = [each for each in self._ends if self._is_alive(each)][1 - _MOST :]
            self._seen = {each: self._seen[each] for each in alive} | {digest: self._now()}
            self._ends = {each: self._ends[each] for each in alive} | {digest: self._now() + SESSION_S}
            self._write()
        return secret

    def knows(self, secret: str) -> bool:
        """Whether a browser is logged in. That it asks keeps it so."""
        digest = self._digest(secret)
        if not self._is_alive(digest):
            return False
        self._seen[digest] = self._now()
        return True

    def end(self, secret: str) -> None:
        """Log one browser out."""
        self._keep(lambda digest: digest != self._digest(secret))

    def end_all(self) -> None:
        """Log every browser out."""
        self._keep(lambda _: False)

    def _keep(self, wanted: Callable[[str], bool]) -> None:
        with self._changing:
            self._ends = {digest: end for digest, end in self._ends.items() if wanted(digest)}
            self._write()

    def _is_alive(self, digest: str) -> bool:
        now = self._now()
        return self._ends.get(digest, 0.0) >= now and self._seen.get(digest, 0.0) + IDLE_S >= now

    def _digest(self, secret: str) -> str:
        return hmac.new(self._key, secret.encode(errors="surrogateescape"), "sha256").hexdigest()

    def _write(self) -> None:
        if self._file is None:
            return
        new = self._file.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
            json.dump(self._ends, writing)
        new.replace(self._file)


def _read(file: Path | None) -> dict[str, float]:
    """What was written; nothing where that cannot be read, which only means to log in again."""
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8")) if file else {}
        return {str(digest): float(end) for digest, end in cast("dict[Any, Any]", found).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
