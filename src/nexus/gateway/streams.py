"""Event streams of a home end when it moves to another host: their clients resume them there.

A home moves once nobody uses it, and somebody always looks at a dashboard.
"""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _Stream:
    """An answer under way."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_open = False
        """Whether it is a stream of events that has begun and not ended."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            self.is_open = any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in headers
            )
        elif not message.get("more_body", False):
            self.is_open = False
        await self._send(message)

    async def end(self) -> None:
        if self.is_open:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


class Streams:
    """Serves requests of homes, and can end those that would never end by themselves."""

    def __init__(self) -> None:
        self._open: dict[str, dict[asyncio.Task[None], _Stream]] = {}

    async def serve(self, home_id: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        stream = _Stream(send)
        serving = asyncio.ensure_future(app(scope, receive, stream.send))
        streams = self._open.setdefault(home_id, {})
        streams[serving] = stream
        try:
            await asyncio.wait({serving})
            if serving.cancelled():
                await stream.end()
            else:
                serving.result()
        finally:
            serving.cancel()
            with suppress(BaseException):
                await serving
            del streams[serving]
            if not streams:
                self._open.pop(home_id, None)

    def end(self, home_id: str) -> None:
        """End the streams of a home; whatever else is asked of it is answered."""
        for serving, stream in self._open.get(home_id, {}).items():
            if stream.is_open:
                serving.cancel()
