"""A part of a long list, and where the next part begins.

A list goes on behind the key of its last row and never counts from its beginning, so that the thousandth
part costs what the first does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Generic, TypeVar, cast

from nexus.errors import UsageError

T = TypeVar("T")

# Sorts behind every timestamp and every id, and occurs in none.
LAST = "~"
_FARTHEST = 1 << 62
_MOST_DIGITS = len(str(_FARTHEST))


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[T]):
    """Some rows; `next` is what to ask for to see those that follow, and None where these are the last."""

    items: tuple[T, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Period:
    """The days that a list is limited to, by default all of them."""

    since: str = ""
    """The first moment, or the day that begins with it."""
    until: str = LAST
    """The first moment that is not part of it any more."""

    def __contains__(self, at: str) -> bool:
        return self.since <= at < self.until

    def begin(self, cursor: str | None) -> tuple[str, str]:
        """Where a list by time begins: behind its cursor, or behind the last moment of the period."""
        at, id_ = parse_cursor(cursor, 2)
        return (at, id_) if at < self.until else (self.until, "")


ALWAYS: Final = Period()


def make_page(found: Sequence[T], limit: int, key: Callable[[T], tuple[str, ...]]) -> Page[T]:
    """Make a page of `limit` rows, out of one row more than that where more follow."""
    items = tuple(found[:limit])
    more = len(found) > limit
    return Page(items=items, next=LAST.join(key(items[-1])) if more else None)


def parse_cursor(cursor: str | None, parts: int) -> tuple[str, ...]:
    """Parse the key behind which a page begins; behind everything where there is no cursor."""
    if not cursor:
        return (LAST,) * parts
    found = tuple(cursor.split(LAST))
    if len(found) != parts or not all(found):
        raise _invalid_cursor(cursor)
    return found


def parse_position(text: str) -> int:
    """Parse a part of a key that is a number; behind every other where it is that of no cursor."""
    if text == LAST:
        return _FARTHEST
    found = int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else -1
    if not 0 <= found <= _FARTHEST:
        raise _invalid_cursor(text)
    return found


def _invalid_cursor(text: str) -> UsageError:
    return UsageError(f"{text[:60]!r} is not a valid cursor", hint="Start without a cursor.")


def list_columns(kind: type[Any], before: str | None = None) -> tuple[str, ...]:
    """List the fields of a record in their order; those before one that is not stored with the rest."""
    names = tuple(each.name for each in fields(kind))
    return names if before is None else names[: names.index(before)]


def make_record(kind: type[T], row: object) -> T:
    """Make a record of a row whose columns are in the order of its fields."""
    return kind(**name_columns(list_columns(kind), row))


def name_columns(names: tuple[str, ...], row: object) -> dict[str, Any]:
    """Name the values of a row."""
    return dict(zip(names, cast("tuple[Any, ...]", row), strict=True))
