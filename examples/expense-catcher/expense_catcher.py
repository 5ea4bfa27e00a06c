"""expense-catcher: writes down what you say you spent, and adds it up when you ask. No model is asked."""

import csv
import io
import re
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from typing import Any

from nexus import Context

FILE = "expenses-{year}.csv"
FIELDS: tuple[str, ...] = ("date", "event", "amount", "currency", "what")
ASKED = re.compile(r"/expenses(?:\s+(?P<month>\d{4}-\d\d))?\s*")
NUMBER = r"\d[\d.,]{0,14}"
SPENT = re.compile(
    rf"\b(?:spent|paid|bought)\b[^.!?\n]{{0,80}}?"
    rf"(?:(?P<sign>[€$£])\s?(?P<first>{NUMBER})|(?P<second>{NUMBER})\s?(?P<unit>[€$£]|(?:EUR|USD|GBP|CHF)\b))"
    r"(?:\s+(?:for|on|at)\s+(?P<what>[^.,;!?\n]{1,60}))?",
    re.IGNORECASE,
)
CODES = {"€": "EUR", "$": "USD", "£": "GBP"}


def run(ctx: Context) -> dict[str, Any] | None:
    said = ctx.request.event.content
    date = ctx.now().date().isoformat()
    asked = ASKED.fullmatch(said.strip())
    if asked:
        month = asked["month"] or date[:7]
        return {"handled": True, "response": summed(rows(ctx, month[:4]), month)}
    found = [expense for each in SPENT.finditer(said[:4_000]) if (expense := read(each))]
    event = ctx.request.event.id or ctx.request.request_id
    if not found or any(row["event"] == event for row in rows(ctx, date[:4])):
        return None
    add(ctx, date[:4], [{"date": date, "event": event, **expense} for expense in found])
    return {"enrich": {"expenses": [f"{each['amount']} {each['currency']}" for each in found]}}


def read(found: re.Match[str]) -> dict[str, str] | None:
    """One expense; None where what looked like an amount is none."""
    amount = number(found["first"] or found["second"])
    unit = (found["sign"] or found["unit"]).upper()
    if amount is None or amount <= 0:
        return None
    what = " ".join((found["what"] or "").split())
    # A spreadsheet must not take what somebody bought for a formula.
    safe = f"'{what}" if what[:1] in {"=", "+", "-", "@"} else what
    return {"amount": f"{amount:.2f}", "currency": CODES.get(unit, unit), "what": safe}


def number(text: str) -> Decimal | None:
    """`1,234.50`, `12,50`, `1.200`: the last mark is the decimal one, unless three digits follow."""
    text = text.rstrip(".,")
    mark = max(text.rfind("."), text.rfind(","))
    whole, rest = (text, "") if mark < 0 or len(text) - mark == 4 else (text[:mark], text[mark + 1 :])
    try:
        return Decimal(f"{re.sub('[.,]', '', whole)}.{rest or 0}")
    except InvalidOperation:
        return None


def summed(known: list[dict[str, str]], month: str) -> str:
    of_month = [row for row in known if row["date"].startswith(month)]
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in of_month:
        sums[row["currency"]] += Decimal(row["amount"])
    lines = [f"{row['date']}  {row['amount']:>10} {row['currency']}  {row['what']}" for row in of_month]
    total = ", ".join(f"{amount:.2f} {currency}" for currency, amount in sorted(sums.items()))
    return "\n".join([*lines, f"{month}: {total or 'nothing'}"])


def rows(ctx: Context, year: str) -> list[dict[str, str]]:
    """What was written down in a year; a line that somebody spoilt is left out."""
    found = csv.DictReader(io.StringIO(ctx.files.read_file(FILE.format(year=year), "")), FIELDS)
    whole = (row for row in found if all(row.get(name) is not None for name in FIELDS))
    return [row for row in whole if number(row["amount"])]


def add(ctx: Context, year: str, found: list[dict[str, str]]) -> None:
    """Append in one write, so that two messages at once lose nothing."""
    text = io.StringIO()
    csv.DictWriter(text, FIELDS, lineterminator="\n").writerows(found)
    with (ctx.files.home / FILE.format(year=year)).open("a", encoding="utf-8") as file:
        file.write(text.getvalue())
