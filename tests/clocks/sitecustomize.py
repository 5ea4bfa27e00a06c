"""Goes with `WrongClock`: lets a program with another clock sleep, and starts others without it."""

import os
import select
import time

if os.environ.pop("LD_PRELOAD", None):

    def _sleep(seconds: float) -> None:
        select.select((), (), (), seconds)

    # libfaketime mistakes a sleep that goes by the monotonic clock, and refuses it.
    time.sleep = _sleep  # pyright: ignore[reportAttributeAccessIssue]
