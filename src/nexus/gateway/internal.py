"""What hosts of a fleet ask of each other, with a key that only hosts of the fleet can make."""

import asyncio
import hmac
from typing import Final

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nexus.app.reception import Salvaged
from nexus.engine.shared import HomeAwayError
from nexus.errors import FencedError
from nexus.gateway.errors import refusal
from nexus.hosting import homes
from nexus.hosting.fleet import salvage
from nexus.hosting.fleet.fleet import Fleet
from nexus.hosting.pool import Pool, UnknownHomeError
from nexus.hosting.replication import ReplicaError

PREFIX: Final = "/internal/"
_HOME: Final = "/internal/homes/{id}"
_TIMEOUT_S: Final = 60.0


async def remove_at_owner(fleet: Fleet, home_id: str) -> bool:
    """Have the host delete a home that owns it. False: no other host that is alive does."""
    owner = await asyncio.to_thread(fleet.registry.owner_of, home_id)
    if owner is None or owner.host == fleet.name or not owner.is_alive:
        return False
    headers = {"authorization": fleet.registry.authorization(owner.host)}
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
            answer = await client.delete(owner.url + _HOME.format(id=home_id), headers=headers)
            answer.raise_for_status()
    except httpx.HTTPError:
        raise HomeAwayError(f"{owner.host} did not delete the home", hint="Try again in a moment.") from None
    return True


class Internal:
    """The routes below `/internal/`, whatever host a request names."""

    def __init__(self, fleet: Fleet, pool: Pool) -> None:
        self._fleet = fleet
        self._pool = pool
        self._app = Starlette(
            routes=[
                Route(salvage.SALVAGED, self._take_salvaged, methods=["POST"]),
                Route(_HOME, self._remove, methods=["DELETE"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Request(scope).headers.get("authorization", "")
        wanted = self._fleet.registry.authorization(self._fleet.name)
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            await refusal(401, "Not a host of this fleet", "Hosts of a fleet share its Postgres.")(
                scope, receive, send
            )
            return
        await self._app(scope, receive, send)

    async def _remove(self, request: Request) -> Response:
        """Delete a home of ours."""
        registry = self._fleet.registry
        found = await asyncio.to_thread(registry.get, request.path_params["id"])
        if found is not None and found.host != self._fleet.name:
            return refusal(421, "Another host has the home", "Ask that host.")
        if found is not None:
            await self._pool.evict(found.id)
            await asyncio.to_thread(homes.remove, registry, found)
        return Response(status_code=204)

    async def _take_salvaged(self, request: Request) -> Response:
        """Take a message in that another host had accepted for a home of ours."""
        message = Salvaged.from_json(await request.json())
        try:
            async with self._pool.use(request.path_params["id"]) as opened:
                taken = await opened.app.reception.take_salvaged(message)
                if opened.fence is not None:
                    opened.fence.check()
                # Whoever gave it deletes it.
                await self._pool.sync_copy(opened)
        except UnknownHomeError:
            return refusal(404, "No such home", "It was removed.")
        except (HomeAwayError, ReplicaError, FencedError) as away:
            return refusal(503, away.message, away.hint)
        return JSONResponse({"taken": taken})
