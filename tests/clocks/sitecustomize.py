"""Goes with `off_by`: lets a program with another clock sleep, and starts others without it."""

import os
import select
import time

if os.environ.pop("LD_PRELOAD", None):
    # libfaketime mistakes a sleep that goes by the monotonic clock, and refuses it.
    time.sleep = lambda seconds: select.select((), (), (), seconds) and None
