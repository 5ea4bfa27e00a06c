"""Sets the clock of a Python program that is started with this folder on its path: see `showing`.

libfaketime can't: it also sets the monotonic clock, and waits of threads then never end.
"""

import os
import time
from datetime import UTC, datetime, timedelta

_ahead = float(os.environ.get("AHEAD_S", "0"))

if _ahead:
    _time, _time_ns = time.time, time.time_ns
    time.time = lambda: _time() + _ahead
    time.time_ns = lambda: _time_ns() + int(_ahead * 1_000_000_000)

    from nexus import clock

    # Kept: a context that nobody holds ends.
    _shifted = clock.starting_at(datetime.now(UTC) + timedelta(seconds=_ahead))
    _shifted.__enter__()
