"""Prefixed ULIDs: `evt_01JCQ…`. They sort by the time they were made, to the microsecond.

A plain ULID tells milliseconds, and two processes can make ids within one. The ten bits after the
milliseconds hold the microseconds; what they make is still a valid ULID.
"""

import hashlib
import os
import threading
import time

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

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def restart(self) -> None:
        """Begin anew, in a process that was forked from one that makes ids too."""
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        milliseconds, microseconds = divmod(time.time_ns() // 1_000, 1_000)
        fresh = ((milliseconds << 10) | microseconds) << _RANDOM_BITS
        with self._lock:
            # Half of the random range stays free, so that increments cannot spill into the time.
            if fresh > self._last:
                self._last = fresh | (int.from_bytes(os.urandom(9)) >> 3)
            else:
                self._last += 1
            value = self._last
        return _encode(value)


def _encode(value: int) -> str:
    pairs = _PAIRS
    return "".join([pairs[(value >> shift) & 1023] for shift in range(120, -1, -10)])


_ulids = Ulids()
# A child that shares the parent's last id would make the parent's next ones again.
os.register_at_fork(after_in_child=_ulids.restart)


def new(prefix: str) -> str:
    """A new id such as `fact_01JCQ3…`."""
    return f"{prefix}_{_ulids.next()}"


def derived(prefix: str, id_: str, salt: str) -> str:
    """An id that follows from another one, with its time: asked for again, it is the same."""
    digest = int.from_bytes(hashlib.sha256(f"{id_}:{salt}".encode()).digest())
    rest = "".join(_ALPHABET[(digest >> shift) & 31] for shift in range(0, 5 * _CHARACTERS, 5))
    own = id_.partition("_")[2]
    return f"{prefix}_{(own[:_TIME_CHARACTERS] + rest)[:_CHARACTERS]}"
