"""What proves that somebody speaks for the owner: the home's token, a login link, a browser's session.

A session is signed with a key made from the token, so it survives a restart and ends when the token changes.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

LINK_S: Final = 600
SESSION_S: Final = 7 * 86_400
_LINKS_KEPT: Final = 16


class Keys:
    """Every comparison takes the same time for a right and a wrong secret."""

    def __init__(self, token: str, now: Callable[[], float] = time.time) -> None:
        self._token = _digest(token)
        self._signing = hmac.digest(token.encode(), b"nexus gateway session", "sha256")
        self._now = now
        self._links: dict[bytes, float] = {}
        # Two homes on one machine share a browser's cookies, which know no port.
        self.cookie: Final = f"nexus_{hashlib.sha256(self._token).hexdigest()[:12]}"

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(_digest(given), self._token)

    def new_code(self) -> str:
        """The code of a login link: it works once, and for ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = self._now() + LINK_S
        while len(self._links) > _LINKS_KEPT:
            del self._links[next(iter(self._links))]
        return code

    def session(self, code: str) -> str | None:
        """A session for a code that was not used before; None for any other."""
        expires = self._links.pop(_digest(code), 0.0)
        if expires < self._now():
            return None
        claim = f"{int(self._now()) + SESSION_S}.{secrets.token_urlsafe(16)}"
        return f"{claim}.{self._signature(claim)}"

    def is_session(self, given: str) -> bool:
        claim, _, signature = given.rpartition(".")
        if not hmac.compare_digest(self._signature(claim).encode(), signature.encode()):
            return False
        return int(claim.partition(".")[0]) >= self._now()

    def _signature(self, claim: str) -> str:
        return hmac.new(self._signing, claim.encode(), "sha256").hexdigest()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
