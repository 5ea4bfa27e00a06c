"""Prefixed ULIDs: `evt_01JCQ…`. They sort by the time they were made, to the microsecond.

A plain ULID tells milliseconds, and two processes can make ids within one. The ten bits after the
milliseconds hold the microseconds; what they make is still a valid ULID.
"""

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_RANDOM_BITS = 70
_CHARACTERS = 26
# The milliseconds and the microseconds of the id that another one is derived from.
_TIME_CHARACTERS = 12


class Ulids:
    """Makes ULIDs that never go backwards, even when the clock is set back.

    The general-purpose libraries restart their random part when the time changes in either
    direction; the session queue's order rests on ids, so a clock stepped back must not reorder it.
    """

    def __init__(
        self, now_us: Callable[[], int] | None = None, randomness: random.Random | None = None
    ) -> None:
        self._now_us = now_us or _system_us
        self._randomness = randomness or random.SystemRandom()
        self._lock = threading.Lock()
        self._last = 0

    def restart(self) -> None:
        """Start over, in a process that was forked from one that makes ids too."""
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        milliseconds, microseconds = divmod(self._now_us(), 1_000)
        fresh = ((milliseconds << 10) | microseconds) << _RANDOM_BITS
        with self._lock:
            # Half of the random range stays free, so that increments cannot spill into the time.
            if fresh > self._last:
                self._last = fresh | self._randomness.getrandbits(_RANDOM_BITS - 1)
            else:
                self._last += 1
            value = self._last
        return _encode(value)


def _system_us() -> int:
    return time.time_ns() // 1_000


def _encode(value: int) -> str:
    pairs = _PAIRS
    return "".join([pairs[(value >> shift) & 1023] for shift in range(120, -1, -10)])


_ulids = Ulids()
_source = _ulids
# A child that shares the parent's last id would make the parent's next ones again.
os.register_at_fork(after_in_child=_ulids.restart)


def new(prefix: str) -> str:
    """Make a new id such as `fact_01JCQ3…`."""
    return f"{prefix}_{_source.next()}"


def derived(prefix: str, id_: str, salt: str) -> str:
    """Derive an id from another one, with its time: the same input gives the same id."""
    digest = int.from_bytes(hashlib.sha256(f"{id_}:{salt}".encode()).digest())
    rest = "".join(_ALPHABET[(digest >> shift) & 31] for shift in range(0, 5 * _CHARACTERS, 5))
    own = id_.partition("_")[2]
    return f"{prefix}_{(own[:_TIME_CHARACTERS] + rest)[:_CHARACTERS]}"


def of_past(prefix: str, moment: datetime, key: str) -> str:
    """Derive an id with a time of the past from a key: the same input gives the same id."""
    microseconds = max(0, int(moment.timestamp() * 1_000_000))
    milliseconds, rest = divmod(microseconds, 1_000)
    digest_ = int(digest(key), 16) & ((1 << _RANDOM_BITS) - 1)
    return f"{prefix}_{_encode((((milliseconds << 10) | rest) << _RANDOM_BITS) | digest_)}"


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def made_by(ulids: Ulids) -> Generator[None]:
    """Make ids with another source, such as one of the past, in the whole process."""
    global _source  # noqa: PLW0603 - ids are made in threads too, which no context variable reaches
    before, _source = _source, ulids
    try:
        yield
    finally:
        _source = before
