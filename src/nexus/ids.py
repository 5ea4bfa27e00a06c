"""Prefixed ULIDs: `evt_01JCQ…`. They sort by the time they were made, to the microsecond.

A plain ULID tells milliseconds, and two processes can make ids within one. The ten bits after the
milliseconds hold the microseconds; what they make is still a valid ULID.
"""

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_RANDOM_BITS = 70


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
