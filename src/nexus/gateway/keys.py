"""What proves that somebody speaks for the owner: the home's token, a login link, a browser's session."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nexus.gateway.browsers import Browsers

LINK_S: Final = 600
_LINKS_KEPT: Final = 16


class Keys:
    """Every comparison takes the same time for a right and a wrong secret."""

    def __init__(
        self, token: str, now: Callable[[], float] = time.time, *, port: int = 0, file: Path | None = None
    ) -> None:
        self._token = _digest(token)
        self._now = now
        self._links: dict[bytes, float] = {}
        self.browsers: Final = Browsers(hmac.digest(token.encode(), b"nexus browser", "sha256"), file, now)
        # Cookies know no port: each home and each place where it is served has one of its own.
        self.cookie: Final = f"nexus_{port}_{hashlib.sha256(self._token).hexdigest()[:12]}"

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(_digest(given), self._token)

    def new_code(self) -> str:
        """The code of a login link: it works once, and for ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = self._now() + LINK_S
        while len(self._links) > _LINKS_KEPT:
            del self._links[next(iter(self._links))]
        return code

    def is_code(self, code: str) -> bool:
        """Whether a login link may be used; with that it has been."""
        return self._links.pop(_digest(code), 0.0) >= self._now()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
