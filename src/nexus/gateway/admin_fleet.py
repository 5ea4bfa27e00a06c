"""Managing the hosts of a fleet over HTTP: each act as an API route and as a button of the admin page."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from nexus.errors import UsageError
from nexus.gateway.admin_page import who
from nexus.hosting.audit import Audit
from nexus.hosting.fleet import moves
from nexus.hosting.fleet.registry import FleetRegistry

_ACTS: Final[dict[str, Callable[[FleetRegistry, str], int]]] = {
    "drain": moves.drain,
    "evacuate": moves.evacuate,
    "resume": moves.resume,
}


class FleetAdmin:
    """Lists and empties hosts, and moves homes."""

    def __init__(self, registry: FleetRegistry, audit: Audit) -> None:
        self._registry = registry
        self._audit = audit
        self.routes = [
            Route("/api/hosts", self._list, methods=["GET"]),
            Route("/api/hosts/{name}/{act}", self._act, methods=["POST"]),
            Route("/api/homes/{name}/host", self._move, methods=["PUT"]),
            Route("/hosts/{name}/{act}", self._press, methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._registry.hosts)
        return JSONResponse({"hosts": [asdict(each) for each in found]})

    async def _act(self, request: Request) -> Response:
        return JSONResponse({"homes": await asyncio.to_thread(self._acted, request)}, 202)

    async def _press(self, request: Request) -> Response:
        await asyncio.to_thread(self._acted, request)
        return RedirectResponse("/", status_code=303)

    def _acted(self, request: Request) -> int:
        name, act = str(request.path_params["name"]), str(request.path_params["act"])
        if act not in _ACTS:
            raise UsageError(f"A host can't {act}", hint=f"Choose one of {', '.join(_ACTS)}.")
        with self._audit.act(f"host.{act}", who=who(request), host=name):
            return _ACTS[act](self._registry, name)

    async def _move(self, request: Request) -> Response:
        try:
            asked: Any = await request.json()
            to = str(asked["host"])
        except (ValueError, KeyError, TypeError):
            raise UsageError("The request names no host", hint='Send {"host": NAME}.') from None
        return JSONResponse(await asyncio.to_thread(self._moved, request, to), 202)

    def _moved(self, request: Request, to: str) -> dict[str, Any]:
        found = self._registry.get_named(request.path_params["name"])
        with self._audit.act("home.move", who=who(request), home=found.name, host=to):
            self._registry.place(found.id, to)
        return {"name": found.name, "host": found.host, "moving_to": to}
