"""How long to wait before something that failed is tried again."""

import math
import random


def next_pause_s(
    failures: int, first_s: float, longest_s: float = math.inf, *, is_spread: bool = False
) -> float:
    """Return a pause that doubles with each failure after the first one, up to the longest.

    `is_spread` takes up to a half off at random, so that those who wait for the same thing return one by one.
    """
    grown_s = min(first_s * 2.0 ** min(max(failures - 1, 0), 60), longest_s)
    return grown_s * random.uniform(0.5, 1.0) if is_spread else grown_s  # noqa: S311 - spreads load
