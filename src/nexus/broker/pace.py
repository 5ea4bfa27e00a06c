"""Pace: a flood of messages is worked on a few at a time, and whoever talks to the agent directly goes first.

Two cores do the work of a hundred messages no sooner if they do it at once: then the first is answered as
late as the last. So a few are taken in side by side, in the order they came, and a few messages of channels
begin to be answered. While models think nothing is busy, so many answers are under way.

What the owner asks is ahead until it is answered, except while a run waits for a model or a tool for longer
than a moment. Meanwhile messages of channels stop at their next read or write of a ledger, each for a limited
time in all: they get slower and never starve.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from typing import Final

from nexus.ledgers.database import yield_point
from nexus.watch import wait_at_most

_PLACES: Final = 2
"""How many messages are worked on side by side, of each kind and in each half of their way."""
_PASSING_S: Final = 2.0
"""For how long in all a message of a channel lets direct ones pass, in each half of its way."""
_HELD_S: Final = 5.0
"""For how long one holds its place: it may be waiting for a script or the disk, which keeps nothing busy."""
_EXPECTED_S: Final = 1.0
"""For how long a direct message stays ahead until its run begins: its session may be busy."""
_AT_ONCE_S: Final = 0.3
"""For how long it is still ahead when it waits for a model or a tool: the answer may come at once."""
_AHEAD_S: Final = 5.0
"""For how long at a stretch somebody is ahead: what takes longer mostly waits for something itself."""


class Pace:
    """Of one home."""

    def __init__(self) -> None:
        self._ahead: set[object] = set()
        self._expected: dict[str, asyncio.TimerHandle] = {}
        self._clear = asyncio.Event()
        self._clear.set()
        self._direct = asyncio.Semaphore(_PLACES)
        self._indirect = asyncio.Semaphore(_PLACES)
        self._answered = asyncio.Semaphore(_PLACES)

    @asynccontextmanager
    async def reception(self, *, is_direct: bool) -> AsyncGenerator[None]:
        """Take a message in when it is its turn. Those of channels let direct ones pass."""
        if is_direct:
            async with self._place(self._direct):
                with self.ahead():
                    yield
        else:
            async with self._place(self._indirect, lets_pass=True):
                yield

    def answer(self) -> AbstractAsyncContextManager[None]:
        """Answer a message of a channel when it is its turn, and let direct ones pass."""
        return self._place(self._answered, lets_pass=True)

    @contextmanager
    def ahead(self, run_id: str = "") -> Generator["Direct"]:
        """Go ahead of messages of channels; the run of that id was expected, perhaps."""
        direct = Direct(self)
        token = _works.set((*_works.get(), direct))
        direct.go()
        self.leave(run_id)
        try:
            yield direct
        finally:
            direct.stop()
            _works.reset(token)

    def expect(self, run_id: str) -> None:
        """Stay ahead until a run that is about to be queued begins, if it answers a direct message."""
        if isinstance((None, *_works.get())[-1], Direct) and run_id not in self._expected:
            self.enter(run_id)
            loop = asyncio.get_running_loop()
            self._expected[run_id] = loop.call_later(_EXPECTED_S, self.leave, run_id)

    async def let_pass(self, most_s: float | None = None) -> None:
        """Wait while somebody is ahead, though not for long: for work that nobody waits for."""
        await wait_at_most(self._clear.wait(), _PASSING_S if most_s is None else most_s)

    @property
    def is_clear(self) -> bool:
        """Whether nobody is ahead."""
        return not self._ahead

    def enter(self, who: object) -> None:
        """Somebody is ahead from now on."""
        self._ahead.add(who)
        self._clear.clear()

    def leave(self, who: object) -> None:
        """Somebody is no longer ahead."""
        self._ahead.discard(who)
        if isinstance(who, str) and (timer := self._expected.pop(who, None)) is not None:
            timer.cancel()
        if not self._ahead:
            self._clear.set()

    @asynccontextmanager
    async def _place(self, places: asyncio.Semaphore, *, lets_pass: bool = False) -> AsyncGenerator[None]:
        """One of the places, in order, until the work is done or waits for something itself."""
        await places.acquire()
        way, place = _Way(self), _Place(places)
        gated = yield_point.set(way) if lets_pass else None
        token = _works.set((*_works.get(), place))
        try:
            if gated is not None:
                await way()
            place.hold()
            yield
        finally:
            if gated is not None:
                yield_point.reset(gated)
            _works.reset(token)
            place.give_up()


class _Place:
    """A place that is taken."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = True
        self._timer: asyncio.TimerHandle | None = None

    def hold(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_HELD_S, self.give_up)

    def give_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._held:
            self._held = False
            self._places.release()

    def waiting(self) -> AbstractContextManager[None]:
        self.give_up()
        return nullcontext()


class _Way:
    """How a message of a channel makes way: for so long in all."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._left_s = _PASSING_S

    async def __call__(self) -> None:
        if self._pace.is_clear or self._left_s <= 0:
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._pace.let_pass(self._left_s)
        self._left_s -= loop.time() - began


class Direct:
    """Something that the owner asked, while it is worked on."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._waits = 0
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def go(self) -> None:
        """Be ahead, for a limited time."""
        if not self._waits and not self._is_over:
            self._pace.enter(self)
            self._leave_in(_AHEAD_S)

    def stop(self) -> None:
        """It is done, or what is left of it can wait."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._pace.leave(self)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """While it lasts, nobody needs to make way; but it may be over in a moment."""
        self._waits += 1
        if self._waits == 1:
            self._leave_in(_AT_ONCE_S)
        try:
            yield
        finally:
            self._waits -= 1
            self.go()

    def _leave_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._pace.leave, self)


_works: ContextVar[tuple[Direct | _Place, ...]] = ContextVar("works", default=())
"""What is going on here, one within the other: a request of the gateway, and the message it brings."""


@contextmanager
def waiting() -> Generator[None]:
    """For where work waits for a model, a tool or a person: it is not ahead then, and keeps no place."""
    with ExitStack() as waits:
        for work in _works.get():
            waits.enter_context(work.waiting())
        yield


async def let_pass() -> None:
    """As before each read and write of a ledger, for where much is computed between two."""
    if (way := yield_point.get()) is not None:
        await way()
