"""Learn that files changed without looking at them: Linux reports it through inotify.

Where inotify is missing or used up, the files' times are compared every `pause_s` instead.
"""

import asyncio
import ctypes
import logging
import os
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from nexus.backoff import next_pause_s
from nexus.errors import NexusError

_MODIFY, _ATTRIB, _MOVED_TO, _CREATE = 0x2, 0x4, 0x80, 0x100
_HEADER = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
# A user has 128 on most systems, for all programs. A host with more open homes compares times.
_MOST_INSTANCES = 16
T = TypeVar("T")


async def finish(work: Awaitable[T]) -> T:
    """Wait for the end of work that must not stop halfway, also if the caller is cancelled meanwhile.

    Not `asyncio.shield` alone: whoever is cancelled would leave the work behind, and nobody would hear how it
    ended.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # what counts is that the caller was cancelled
        raise


async def wait_at_most(wake: Awaitable[object], most_s: float | None) -> bool:
    """Wait for what wakes a loop that also looks by itself. False: the time was up first.

    Not `asyncio.wait_for`: until Python 3.12 it can lose a cancellation, and whoever stops the loop waits
    forever.
    """
    try:
        async with asyncio.timeout(most_s):
            await wake
    except TimeoutError:
        return False
    return True


async def repeat(
    work: Callable[[], Awaitable[object]],
    log: logging.Logger,
    failure: str,
    *,
    pause_s: float,
    longest_pause_s: float = 0.0,
) -> None:
    """Do something again and again until cancelled; an error is logged as `failure`, and doesn't end it.

    After each error in a row the pause doubles, up to the longest.
    """
    failures = 0
    while True:
        try:
            await work()
            failures = 0
        except NexusError as error:
            log.warning("%s: %s", failure, error)
            failures += 1
        except Exception:
            log.exception("%s", failure)
            failures += 1
        await asyncio.sleep(next_pause_s(failures + 1, pause_s, max(pause_s, longest_pause_s)))


class Watch:
    """Tells the event loop that one of some files was written, touched or made.

    Each report is repeated `pause_s` later, together with what changed meanwhile: what is written to a
    database can only be read a moment after that, when it is committed.
    """

    _instances = 0

    def __init__(
        self, paths: Sequence[Path], changed: Callable[[], None] | None = None, *, pause_s: float
    ) -> None:
        self._paths = paths
        self._event = asyncio.Event()
        self._changed = changed or self._event.set
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._names = {path.name.encode() for path in paths}
        self._stamps = [_stamp(path) for path in paths]
        self._repeats = False
        self._inotify = _open_inotify() if Watch._instances < _MOST_INSTANCES else -1
        if self._inotify >= 0:
            Watch._instances += 1
            self._add_files()
            if all(_add(self._inotify, path.parent, _CREATE | _MOVED_TO) for path in paths):
                self._loop.add_reader(self._inotify, self._read)
                return
            self._close_inotify()
        self._timer = self._loop.call_later(pause_s, self._compare)

    async def wait(self, most_s: float | None = None) -> None:
        """Until something changed since the last wait, or the time is up. Only without `changed`."""
        await wait_at_most(self._event.wait(), most_s)
        self._event.clear()

    def close(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._close_inotify()

    def _close_inotify(self) -> None:
        if self._inotify >= 0:
            self._loop.remove_reader(self._inotify)
            os.close(self._inotify)
            self._inotify = -1
            Watch._instances -= 1

    def _add_files(self) -> None:
        for path in self._paths:
            _add(self._inotify, path, _MODIFY | _ATTRIB)  # one that is missing is added when it is made

    def _read(self) -> None:
        """Report a change, and do it again after a pause, in which no other one is looked for."""
        is_ours = False
        with suppress(BlockingIOError):
            data, at = os.read(self._inotify, _READ_BYTES), 0
            while at < len(data):
                _, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size + length
                if mask & (_CREATE | _MOVED_TO):  # of the folder, where other files come and go
                    if data[at - length : at].rstrip(b"\0") not in self._names:
                        continue
                    self._add_files()
                is_ours = True
        if is_ours:
            self._loop.remove_reader(self._inotify)
            self._timer = self._loop.call_later(self._pause_s, self._resume)
            self._changed()

    def _resume(self) -> None:
        self._loop.add_reader(self._inotify, self._read)
        self._changed()

    def _compare(self) -> None:
        self._timer = self._loop.call_later(self._pause_s, self._compare)
        stamps = [_stamp(path) for path in self._paths]
        has_changed, self._stamps = stamps != self._stamps, stamps
        if has_changed or self._repeats:
            self._changed()
        self._repeats = has_changed


def _open_inotify() -> int:
    try:
        return int(ctypes.CDLL(None).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return -1


def _add(inotify: int, path: Path, mask: int) -> bool:
    return int(ctypes.CDLL(None).inotify_add_watch(inotify, os.fsencode(path), mask)) >= 0


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
