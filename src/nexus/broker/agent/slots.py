"""Who uses a model server next: one gate for each server, which every request to a model passes.

A server on this machine works on one request, or a few, at a time. People come before their workers, and both
before background work. Background work gives up its place as soon as somebody else needs it: its request is
canceled at the server, and made again later. On a server with one slot, it begins only after nobody else has
used the server for a while, because reading the prompt of another conversation costs minutes on a laptop.
"""

import asyncio
import heapq
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Final, Self

PERSON, WORKER, BACKGROUND = range(3)
"""Priorities: the lower, the sooner."""

Tell = Callable[[str], None]
"""Told who uses the server while somebody waits for it."""


class YieldedError(Exception):
    """A request was canceled because somebody else needed its place: make it again."""


class Place:
    """A place at a server, to be used as a context."""

    def __init__(
        self, gate: "Slots", server: "_Server", priority: int, name: str, *, yields: bool, on_wait: Tell
    ) -> None:
        self._gate = gate
        self._server = server
        self.priority = priority
        self.name = name
        self.on_wait = on_wait
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._yields = yields
        self._task: asyncio.Task[object] | None = None
        self._canceling = 0
        self.has_yielded = False

    @property
    def may_yield(self) -> bool:
        """Whether it can be asked to make room."""
        return self._yields and self._task is not None and not self.has_yielded

    def make_room(self) -> None:
        """Cancel what uses it, as a timeout does."""
        self.has_yielded = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._canceling = self._task.cancelling() if self._task else 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        self._gate.leave(self._server, self)
        if (
            self.has_yielded
            and task is not None
            and task.uncancel() <= self._canceling
            and kind is asyncio.CancelledError
        ):
            raise YieldedError from error


@dataclass
class _Server:
    most: int | None = None
    using: list[Place] = field(default_factory=list[Place])
    waiting: list[tuple[int, int, Place]] = field(default_factory=list[tuple[int, int, Place]])
    quiet_at: float = 0.0
    """On the event loop's clock: when background work may begin."""
    timer: asyncio.TimerHandle | None = None

    @property
    def has_room(self) -> bool:
        return self.most is None or len(self.using) < self.most


class Slots:
    """The places of all providers of a home."""

    def __init__(self, quiet_s: float = 0.0) -> None:
        self._quiet_s = quiet_s
        self._servers: dict[str, _Server] = {}
        self._order = count()

    async def enter(
        self,
        provider: str,
        most: int | None,
        priority: int,
        *,
        name: str = "",
        yields: bool = False,
        on_wait: Tell = lambda _: None,
    ) -> Place:
        """Wait for a place. Background work that `yields` is canceled when somebody else needs it."""
        server = self._servers.setdefault(provider, _Server())
        server.most = most
        place = Place(self, server, priority, name, yields=yields and priority == BACKGROUND, on_wait=on_wait)
        heapq.heappush(server.waiting, (priority, next(self._order), place))
        self._admit(server)
        if not place.turn.done():
            self._make_room(server)
            self._tell(server)
        try:
            await place.turn
        except asyncio.CancelledError:
            if place in server.using:
                self.leave(server, place)
            raise
        return place

    def leave(self, server: _Server, place: Place) -> None:
        """Give a place back."""
        server.using.remove(place)
        if place.priority != BACKGROUND:
            server.quiet_at = asyncio.get_running_loop().time() + self._quiet_s
        self._admit(server)
        self._tell(server)

    def _admit(self, server: _Server) -> None:
        """Hand free places to whoever is first among those who still wait."""
        if server.timer is not None:
            server.timer.cancel()
            server.timer = None
        while server.waiting and server.has_room:
            priority, _, place = server.waiting[0]
            if not place.turn.done():
                loop = asyncio.get_running_loop()
                if priority == BACKGROUND and server.most == 1 and loop.time() < server.quiet_at:
                    server.timer = loop.call_at(server.quiet_at, self._admit, server)
                    return
                server.using.append(place)
                place.turn.set_result(None)
            heapq.heappop(server.waiting)

    def _make_room(self, server: _Server) -> None:
        needed = sum(
            priority != BACKGROUND and not place.turn.done() for priority, _, place in server.waiting
        )
        needed -= sum(place.has_yielded for place in server.using)
        for place in [each for each in server.using if each.may_yield][: max(0, needed)]:
            place.make_room()

    def _tell(self, server: _Server) -> None:
        names = ", ".join(dict.fromkeys(place.name for place in server.using if place.name))
        for _, _, place in server.waiting:
            if not place.turn.done():
                place.on_wait(names)


_time_limits: Final = dict[str, asyncio.Timeout]()
"""Those of the invocations under way, by the invocation's id."""


@contextmanager
def time_limited(invocation_id: str, limit: asyncio.Timeout) -> Generator[None]:
    """While it lasts, the runs of an invocation can stop its time."""
    _time_limits[invocation_id] = limit
    try:
        yield
    finally:
        del _time_limits[invocation_id]


@contextmanager
def stopped_time(limit: asyncio.Timeout | None) -> Generator[None]:
    """While it lasts, a time limit does not come nearer."""
    if limit is None or (until := limit.when()) is None:
        yield
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    limit.reschedule(None)
    try:
        yield
    finally:
        with suppress(RuntimeError):  # it is over
            limit.reschedule(until + loop.time() - began)


def time_limit_of(invocation_id: str | None) -> asyncio.Timeout | None:
    """The time limit of an invocation that is under way in this process."""
    return _time_limits.get(invocation_id or "")
