"""What the gateway notes about every request: which route, how it ended, how long it took."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus.gateway.metrics import Metrics

_log = logging.getLogger("nexus.gateway")


class Observer:
    """Stands outermost, so that what the guard refuses is seen, too. Paths are noted as patterns only."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Sequence[BaseRoute] = ()) -> None:
        self._app = app
        self._metrics = metrics
        self._patterns = _patterns(routes)

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
            _log.info("cut off", extra=self._told(scope, status, time.perf_counter() - began))
            return
        except Exception:
            if left:
                # Whoever asked went away in the middle of the answer: nothing is wrong here.
                _log.info(
                    "nobody listens any more", extra=self._told(scope, status, time.perf_counter() - began)
                )
                return
            _log.exception("a request failed", extra=self._told(scope, 500, time.perf_counter() - began))
            if status == 0:
                raise
        seconds = time.perf_counter() - began
        self._metrics.answered(scope["method"], self._route(scope), status, seconds)
        _log.info("answered", extra=self._told(scope, status, seconds))

    def _told(self, scope: Scope, status: int, seconds: float) -> dict[str, Any]:
        return {
            "method": scope["method"],
            "route": self._route(scope),
            "status": status,
            "ms": round(seconds * 1000, 1),
        }

    def _route(self, scope: Scope) -> str:
        """The pattern that a path fits: the path itself may name somebody, or be anything at all."""
        known = self._patterns.get(scope.get("endpoint"))
        if known is not None:
            return known
        own = getattr(scope.get("route"), "path_format", "")
        return _outer(scope["path"], own) + own if own else "-"


def _patterns(routes: Sequence[BaseRoute]) -> dict[object, str]:
    """The pattern of each endpoint that these routes lead to themselves."""
    mounted: dict[object, str] = {
        each.app: f"{each.path}/{{path}}" for each in routes if isinstance(each, Mount)
    }
    return mounted | {each.endpoint: each.path_format for each in routes if isinstance(each, Route)}


def _outer(path: str, own: str) -> str:
    """What routers around a route put before its pattern: all before where its first words occur."""
    return path.partition(own.partition("{")[0])[0]
