"""Any host of a fleet takes any request: its own homes are served here, the others' passed on.

A home changes its host while requests arrive. So a host that gets a request for a home it doesn't have says
so (421), and whoever passed it on looks again. A client sees an error only if no host has the home for longer
than `_PATIENCE_S`.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nexus.errors import NexusError
from nexus.gateway.forwarding import (
    FORWARDED_BY,
    Body,
    Forwarder,
    NotSentError,
    UnknownOutcomeError,
    misdirected,
)
from nexus.gateway.guard import BodyLimits
from nexus.gateway.refusals import later, refusal
from nexus.hosting.fleet.fleet import Fleet
from nexus.hosting.fleet.moves import choose_host
from nexus.hosting.fleet.records import FleetHost, FleetUnreachableError, HomeElsewhereError, Owner
from nexus.hosting.pool import Pool

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]
_REMEMBERED_S: Final = 1.0
_REMEMBERED: Final = 4_096
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 0.5
_SAFE: Final = frozenset({"GET", "HEAD"})
_MESSAGES: Final = "/api/messages"


class Router:
    """Finds the host of each request's home."""

    def __init__(self, fleet: Fleet, pool: Pool, limits: BodyLimits) -> None:
        self._fleet = fleet
        self._pool = pool
        self._limits = limits
        self._forward = Forwarder(fleet.name)
        self._owners: dict[str, tuple[float, Owner]] = {}
        self._hosts: tuple[float, list[FleetHost]] = (-_REMEMBERED_S, [])

    async def close(self) -> None:
        await self._forward.close()

    async def __call__(self, home_id: str, scope: Scope, receive: Receive, send: Send, serve: Serve) -> None:
        """Answer a request for a home: with `serve` if the home is ours."""
        if FORWARDED_BY in Headers(scope=scope):
            try:
                await serve(scope, receive, send)
            except HomeElsewhereError as elsewhere:
                await misdirected(elsewhere.message, elsewhere.hint)(scope, receive, send)
            return
        refused = await self._answered(home_id, scope, Body(receive, self._limits), send, serve)
        if refused is not None:
            await refused(scope, receive, send)

    async def _answered(
        self, home_id: str, scope: Scope, body: Body, send: Send, serve: Serve
    ) -> Response | None:
        """Why it could not be answered; None: it was."""
        until, pause_s = math.inf, _PAUSE_S
        while True:
            try:
                owner = await self._owner(home_id)
                if owner is None or owner.host == self._fleet.name:
                    await serve(scope, body.receiver(), _settling(body, send))
                else:
                    key = self._fleet.registry.host_key(owner.host)
                    await self._forward(owner.url, key, scope, body, send, partial(self._lost, owner))
            except HomeElsewhereError as elsewhere:
                self._remember(home_id, elsewhere.owner)
            except NotSentError:
                self._owners.pop(home_id, None)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except UnknownOutcomeError:
                self._owners.pop(home_id, None)
                if not _is_harmless(scope):
                    return refusal(
                        502,
                        "The home's host went away before it answered",
                        "The request may have been carried out: look before you repeat it.",
                    )
            except FleetUnreachableError as error:
                return later(error.message)
            else:
                return None
            until = min(until, time.monotonic() + _PATIENCE_S)
            if not body.is_repeatable or time.monotonic() > until:
                return later("No host has this home at the moment")

    async def _owner(self, home_id: str) -> Owner | None:
        """Who has a home, or is to have it; None: it is open here, or whoever asks may take it."""
        if home_id in self._pool:
            return None
        at, known = self._owners.get(home_id, (0.0, None))
        if known is not None and time.monotonic() - at < _REMEMBERED_S:
            return known
        try:
            found = await asyncio.to_thread(self._fleet.registry.owner_of, home_id)
        except FleetUnreachableError:
            if known is None:
                raise
            return known
        if found is None or not found.is_alive:
            found = await self._placed(home_id)
        if found is not None:
            self._remember(home_id, found)
        return found

    async def _placed(self, home_id: str) -> Owner | None:
        """Give a home that no living host has to one with little load."""
        home = await asyncio.to_thread(self._fleet.registry.get, home_id)
        chosen = choose_host(await self._living(), schema=home.schema if home else 0)
        if chosen is None or chosen.name == self._fleet.name:
            return None
        try:
            await asyncio.to_thread(self._fleet.registry.place, home_id, chosen.name)
        except FleetUnreachableError:
            raise
        except NexusError:  # the host, or the home, is gone by now
            return None
        return Owner(host=chosen.name, url=chosen.url, is_alive=True)

    async def _living(self) -> list[FleetHost]:
        at, hosts = self._hosts
        if time.monotonic() - at >= _REMEMBERED_S:
            hosts = await asyncio.to_thread(self._fleet.registry.hosts)
            self._hosts = time.monotonic(), hosts
        return [each for each in hosts if each.is_alive]

    async def _lost(self, owner: Owner) -> None:
        """Until a host's lease has ended: it may be cut off or frozen, so its connections say nothing."""
        while True:
            await asyncio.sleep(_REMEMBERED_S)
            try:
                living = await self._living()
            except FleetUnreachableError:
                continue
            if not any(each.name == owner.host for each in living):
                return

    def _remember(self, home_id: str, owner: Owner) -> None:
        if len(self._owners) >= _REMEMBERED:
            self._owners.clear()
        self._owners[home_id] = time.monotonic(), owner


def _settling(body: Body, send: Send) -> Send:
    """Once an answer has begun, the request isn't sent elsewhere."""

    async def sending(message: Message) -> None:
        body.settle()
        await send(message)

    return sending


def _is_harmless(scope: Scope) -> bool:
    """Whether a request may be carried out twice: it only reads, or its home recognizes it."""
    return scope["method"] in _SAFE or (
        scope["path"] == _MESSAGES and "idempotency-key" in Headers(scope=scope)
    )
