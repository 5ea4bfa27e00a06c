"""How long each part took."""

import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def timed(timings_ms: dict[str, float], name: str) -> Generator[None]:
    """Add the milliseconds of a block to the timings, under a name."""
    started = time.perf_counter()
    try:
        yield
    finally:
        timings_ms[name] = timings_ms.get(name, 0.0) + (time.perf_counter() - started) * 1000
