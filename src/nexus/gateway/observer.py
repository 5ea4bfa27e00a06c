"""What the gateway notes about every request: which route, how it ended, how long it took."""

import asyncio
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus.gateway.metrics import Metrics

_log = logging.getLogger("nexus.gateway")


class Observer:
    """Stands outermost, so that what the guard refuses is seen, too. Paths are noted as patterns only."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status, left = time.perf_counter(), 0, False

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        async def receiving() -> Message:
            nonlocal left
            message = await receive()
            left = left or message["type"] == "http.disconnect"
            return message

        try:
            await self._app(scope, receiving, sending)
        except asyncio.CancelledError:
            # The gateway stops and waits no longer. uvicorn would take it for an error of the application.
            _log.info("cut off", extra=_told(scope, status, time.perf_counter() - began))
            return
        except Exception:
            if left:
                # Whoever asked went away in the middle of the answer: nothing is wrong here.
                _log.info("nobody listens any more", extra=_told(scope, status, time.perf_counter() - began))
                return
            _log.exception("a request failed", extra=_told(scope, 500, time.perf_counter() - began))
            if status == 0:
                raise
        seconds = time.perf_counter() - began
        self._metrics.answered(scope["method"], _route(scope), status, seconds)
        _log.info("answered", extra=_told(scope, status, seconds))


def _told(scope: Scope, status: int, seconds: float) -> dict[str, Any]:
    return {
        "method": scope["method"],
        "route": _route(scope),
        "status": status,
        "ms": round(seconds * 1000, 1),
    }


def _route(scope: Scope) -> str:
    """The pattern that a path fits: the path itself may name somebody, or be anything at all."""
    if "endpoint" not in scope:
        return "-"
    path: str = scope["path"]
    for name, value in scope.get("path_params", {}).items():
        before, found, after = path.rpartition(str(value))
        path = f"{before}{{{name}}}{after}" if found else path
    return path
