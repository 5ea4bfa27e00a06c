"""The subject of what is concluded from several things: the one that most of them are about."""

from collections import Counter
from collections.abc import Iterable


def most(values: Iterable[str]) -> str | None:
    """The one that occurs most often, the first of several; None where there are none."""
    common = Counter(values).most_common(1)
    return common[0][0] if common else None
