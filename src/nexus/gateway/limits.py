"""How much a client may ask for: requests in a time, and the size and duration of what it sends."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

BURST_S: Final = 5
"""How many seconds' worth of requests may come at once."""


class Bucket:
    """Tokens that come back at a steady rate; whoever takes one from an empty bucket is refused."""

    def __init__(self, rate_per_s: float, most: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate_per_s
        self._most = most
        self._now = now
        self._left = most
        self._at = now()

    def take(self) -> bool:
        now = self._now()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """What the body of a request may be."""

    most_bytes: int
    timeout_ms: int


class BodyTooLargeError(Exception):
    """More was sent than is allowed."""


async def read_body(receive: Receive, limits: BodyLimits) -> bytes:
    """The whole body; `BodyTooLargeError` or `TimeoutError` where it is too large or takes too long."""
    body = bytearray()
    async with asyncio.timeout(limits.timeout_ms / 1000):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > limits.most_bytes:
                raise BodyTooLargeError
            if not message.get("more_body", False):
                return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already to whoever comes next, and then what the connection says."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
