"""Intervals of the calendar: a day, a month, a season, so many weeks ago. UTC, the end excluded."""

from datetime import UTC, datetime, timedelta
from typing import Literal

Window = tuple[datetime, datetime]
Unit = Literal["day", "week", "weekend", "month", "quarter", "year"]

_UNIT_DAYS: dict[str, int] = {"day": 1, "week": 7, "weekend": 7, "month": 30, "quarter": 91, "year": 365}


def day(year: int, month: int, day: int) -> Window:
    start = datetime(year, month, day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def latest_day(month_number: int, day_number: int, now: datetime) -> Window:
    """The last such day, today included."""
    start, end = day(now.year, month_number, day_number)
    return day(now.year - 1, month_number, day_number) if start > now else (start, end)


def days_back(count: int, now: datetime) -> Window:
    start = midnight(now) - timedelta(days=count)
    return start, start + timedelta(days=1)


def weekday(number: int, now: datetime) -> Window:
    """The last such day before today; Monday is 0."""
    return days_back((now.weekday() - number) % 7 or 7, now)


def month(year: int, month: int) -> Window:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, months_on(start, 1)


def latest_month(number: int, now: datetime) -> Window:
    """The last such month, this one included."""
    return month(now.year if number <= now.month else now.year - 1, number)


def season(first_month: int, year: int | None, now: datetime, *, over: bool = False) -> Window:
    """Three months. Without a year: the last one that has begun, or, if `over`, that has ended."""
    start = datetime(now.year if year is None else year, first_month, 1, tzinfo=UTC)
    if year is None and start > now:
        start = start.replace(year=start.year - 1)
    if year is None and over and months_on(start, 3) > now:
        start = start.replace(year=start.year - 1)
    return start, months_on(start, 3)


def quarter(number: int, year: int | None, now: datetime) -> Window:
    return season(3 * number - 2, year, now)


def year(number: int) -> Window:
    return datetime(number, 1, 1, tzinfo=UTC), datetime(number + 1, 1, 1, tzinfo=UTC)


def ago(count: int, unit: str, now: datetime) -> Window:
    """About so long ago: people round."""
    days = count * _UNIT_DAYS[unit]
    slack = max(1, days // 8)
    middle = midnight(now) - timedelta(days=days)
    return middle - timedelta(days=slack), middle + timedelta(days=slack + 1)


def around(unit: str, now: datetime, *, this: bool) -> Window:
    """This week, month or year, or the last one. A weekend is always the last one."""
    today = midnight(now)
    match unit:
        case "day":
            return days_back(0 if this else 1, now)
        case "week":
            start = today - timedelta(days=today.weekday() + (0 if this else 7))
            return start, start + timedelta(days=7)
        case "weekend":
            start = today - timedelta(days=today.weekday() + 2)
            return start, start + timedelta(days=2)
        case "month":
            first = today.replace(day=1)
            return (first, months_on(first, 1)) if this else (months_on(first, -1), first)
        case "quarter":
            start = today.replace(month=3 * ((today.month - 1) // 3) + 1, day=1)
            return (start, months_on(start, 3)) if this else (months_on(start, -3), start)
        case _:
            return year(today.year if this else today.year - 1)


def months_on(start: datetime, count: int) -> datetime:
    index = start.year * 12 + start.month - 1 + count
    return start.replace(year=index // 12, month=index % 12 + 1)


def midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
