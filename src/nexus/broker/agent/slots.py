"""Who uses a model server next: one gate for each server, which every request to a model passes.

A server on this machine works on one request, or a few, at a time. People come before their workers, and both
before background work. Background work gives up its place as soon as somebody else needs it: its request is
canceled at the server, and made again later. On a server with one slot, it begins only after nobody else has
used the server for a while, because reading the prompt of another conversation costs minutes on a laptop.
It makes way a few times only: then its request takes the next free place, and is finished.
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

MOST_YIELDS: Final = 3
"""How often a request of background work makes way."""
LONGEST_DELAY_S: Final = 900.0
"""How long after it was first wanted it waits for a quiet moment, and makes way."""

Tell = Callable[[str], None]
"""Told who uses the server while somebody waits for it."""


class YieldedError(Exception):
    """A request was canceled because somebody else needed its place: make it again."""


@dataclass
class Delay:
    """How a request has made way so far. Whoever makes it keeps this, and passes it each time it is made."""

    began_at: float | None = None
    """On the event loop's clock: when it was first wanted."""
    yields: int = 0

    @property
    def ends_at(self) -> float:
        """On the event loop's clock: from when on it makes way no more."""
        return (self.began_at or 0.0) + (0.0 if self.yields >= MOST_YIELDS else LONGEST_DELAY_S)


class Place:
    """A place at a server, to be used as a context."""

    def __init__(
        self,
        gate: "Slots",
        server: "_Server",
        priority: int,
        name: str,
        delay: Delay,
        *,
        yields: bool,
        on_wait: Tell,
    ) -> None:
        self._gate = gate
        self._server = server
        self.priority = priority
        self.name = name
        self.delay = delay
        self.on_wait = on_wait
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.yields = yields
        self._task: asyncio.Task[object] | None = None
        self._canceling = 0
        self.has_yielded = False

    @property
    def may_yield(self) -> bool:
        """Whether it can be asked to make room."""
        return self.yields and self._task is not None and not self.has_yielded

    def make_room(self) -> None:
        """Cancel what uses it, as a timeout does."""
        self.has_yielded = True
        self.delay.yields += 1
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._canceling = self._task.cancelling() if self._task else 0
        # For whoever came after it was admitted. Not at once: a task that cancels itself, and leaves before
        # it waits for anything, would be canceled later, in the midst of something else.
        asyncio.get_running_loop().call_soon(self._gate.make_room, self._server)
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
    waiting: list[tuple[int, float, int, Place]] = field(default_factory=list[tuple[int, float, int, Place]])
    """A heap: by priority, background work by the end of its delay, and in the order of arrival."""
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
        delay: Delay | None = None,
    ) -> Place:
        """Wait for a place. Background work that `yields` is canceled when somebody else needs it."""
        delay = delay or Delay()
        if delay.began_at is None:
            delay.began_at = asyncio.get_running_loop().time()
        server = self._servers.setdefault(provider, _Server())
        server.most = most
        is_background = priority == BACKGROUND
        place = Place(self, server, priority, name, delay, yields=yields and is_background, on_wait=on_wait)
        due_at = delay.ends_at if is_background else 0.0
        heapq.heappush(server.waiting, (priority, due_at, next(self._order), place))
        self._admit(server)
        if not place.turn.done():
            self.make_room(server)
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
            priority, due_at, _, place = server.waiting[0]
            if not place.turn.done():
                loop = asyncio.get_running_loop()
                begins_at = min(server.quiet_at, due_at)
                if priority == BACKGROUND and server.most == 1 and loop.time() < begins_at:
                    server.timer = loop.call_at(begins_at, self._admit, server)
                    return
                place.yields = place.yields and loop.time() < due_at
                server.using.append(place)
                place.turn.set_result(None)
            heapq.heappop(server.waiting)

    def make_room(self, server: _Server) -> None:
        """Cancel as much background work as people and workers wait for."""
        needed = sum(
            priority != BACKGROUND and not place.turn.done() for priority, _, _, place in server.waiting
        )
        needed -= sum(place.has_yielded for place in server.using)
        for place in [each for each in server.using if each.may_yield][: max(0, needed)]:
            place.make_room()

    def _tell(self, server: _Server) -> None:
        names = ", ".join(dict.fromkeys(place.name for place in server.using if place.name))
        for *_, place in server.waiting:
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


@dataclass
class _Stop:
    left_s: float
    holders: int = 0


_stops: Final = dict[asyncio.Timeout, _Stop]()
"""Of the time limits that stand still."""


@contextmanager
def stopped_time(limit: asyncio.Timeout | None) -> Generator[None]:
    """While it lasts, for whoever holds it longest, a time limit does not come nearer."""
    loop = asyncio.get_running_loop()
    stop = _stops.get(limit) if limit is not None else None
    if limit is not None and stop is None and (until := limit.when()) is not None:
        with suppress(RuntimeError):  # it is over
            limit.reschedule(None)
            stop = _stops[limit] = _Stop(until - loop.time())
    if limit is None or stop is None:
        yield
        return
    stop.holders += 1
    try:
        yield
    finally:
        stop.holders -= 1
        if not stop.holders:
            del _stops[limit]
            with suppress(RuntimeError):  # it is over
                limit.reschedule(loop.time() + stop.left_s)


def time_limit_of(invocation_id: str | None) -> asyncio.Timeout | None:
    """The time limit of an invocation that is under way in this process."""
    return _time_limits.get(invocation_id or "")
