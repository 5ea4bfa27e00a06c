"""Promises in what people and agents say: recognized by rules, without a model.

The patterns are the `promises` of `nexus.memory.languages.lexicons`; a language without them has none.
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Final, Literal
from zoneinfo import ZoneInfo

from nexus.automations import when
from nexus.context.wrapping import split_quotes
from nexus.memory.languages import dates, speech
from nexus.memory.languages.lexicon import lexicon

Speaker = Literal["owner", "other", "agent"]
Who = Literal["speaker", "named", "agent"]
_MOST: Final = 5
"""The most promises of one message: a longer list is a plan, not a promise to somebody."""
_LONGEST: Final = 20_000
_LONGEST_SENTENCE: Final = 400
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTED: Final = re.compile(r"[\"“„«](?=[^\"“„«”»\n]*\b(?:[Ii]|[Ww]e)\b)[^\"“„«”»\n]*[\"”“»]")
"""Quoted words of a first person: a wording or somebody else's, not the speaker's."""
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_SLANG: Final = re.compile(r"\b(?:tmrw|tmr|tomorow|2moro)\b", re.IGNORECASE)
_END_OF: Final = re.compile(
    r"\b(?:end of (?:the |this )?(?P<unit>day|week|month|year)|(?P<eod>eod|cob)|(?P<eow>eow))\b"
)
_FROM: Final = re.compile(r"\b(?:an?|one|two|three|\d) weeks? from (?=today|tomorrow|\w+day)")
_RECIPIENT: Final = re.compile(
    r"\b(?i:to|for|with|about|told|promised|assured|owe|tell|ask|remind|call|text|send|email|give|pay|show|get|ping"
    r"|nudge|chase|let|bring|write|pick)"
    r" (?P<name>(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w'-]*[a-z](?: [A-Z][\w'-]+)?)"
)
_TO_YOU: Final = re.compile(r"\b(?:you|u|your)\b", re.IGNORECASE)
_FIRST_WORDS: Final = frozenset({"I", "We", "It", "He", "She", "They", "You", "This", "That", "There", "The"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """The last day of a promise, and the time of day if it was said."""

    day: date
    at: time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """A promise: who makes it, to whom, in which words, and by when."""

    who: Who
    name: str = ""
    """Of somebody whose promise is reported."""
    recipient: str = ""
    """The name of whom it is made to, if it says so; `you` for whoever is spoken to."""
    text: str
    due: Due | None = None


def find_promises(text: str, *, speaker: Speaker, said_at: datetime, zone: str) -> list[Promise]:
    """Find the promises of a message. Quotes, forwarded text, drafts, code and questions promise nothing."""
    said_on = said_at.astimezone(ZoneInfo(zone)).date()
    own = _CODE.sub(" ", split_quotes(text[:_LONGEST])[0]).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    own = _QUOTED.sub("“…”", own)
    for code in speech.languages(own):
        if (pattern := _compile(code).get("draft")) and (draft := pattern.search(own)):
            own = own[: draft.start()]
    found: list[Promise] = []
    for sentence in (_LIST_MARK.sub("", each) for each in speech.sentences(own)):
        if len(sentence) <= _LONGEST_SENTENCE:
            found += _read_sentence(sentence.strip(), speaker, said_on)
        if len(found) >= _MOST:
            break
    return found[:_MOST]


def find_due(sentence: str, said_on: date) -> Due | None:
    """Find by when something is promised: the last day that a sentence names."""
    plain = _SLANG.sub("tomorrow", sentence)
    spoken = speech.languages(plain)
    lower = speech.align(plain)
    days: list[date] = []
    for (span,), _, _ in dates.find_relative(plain, [said_on], spoken):
        first, last = span
        # Of a week the last working day.
        days.append(last - timedelta(days=2) if (last - first).days == 6 else last)
    if (weeks := _FROM.search(lower)) and days:
        count = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}.get(weeks[0].split()[0])
        days = [days[-1] + timedelta(weeks=count or int(weeks[0].split()[0]))]
    for moment in dates.find_moments(plain, spoken):
        if moment.day and (day := _place(moment, said_on)):
            days.append(day)
    if end := _END_OF.search(lower):
        days.append(_end_of(end["unit"] or ("day" if end["eod"] else "week"), said_on))
    days = [day for day in days if day >= said_on]
    at, _ = when.read_time_of_day(lower)
    if days:
        return Due(day=max(days), at=at)
    return Due(day=said_on, at=at) if re.search(r"\btonight\b|\bthis (?:after|eve|morn)", lower) else None


def _read_sentence(sentence: str, speaker: Speaker, said_on: date) -> Iterator[Promise]:
    if not sentence:
        return
    for code in speech.languages(sentence):
        patterns = _compile(code)
        if not patterns:
            continue
        due = find_due(sentence, said_on)
        asked = speaker == "owner" and _matches(patterns, "asked", sentence, due)
        if not asked and (sentence.rstrip(" )\"'").endswith("?") or _is(patterns, "lookalike", sentence)):
            return
        if asked:
            yield Promise(who="agent", recipient=_find_recipient(sentence, ""), text=sentence, due=due)
            return
        if (named := _find_reported(patterns, sentence, due)) is not None:
            yield Promise(who="named", name=named, recipient="", text=sentence, due=due)
            return
        if _matches(patterns, "self", sentence, due):
            # An answer says "I'll summarize it" and does so; what comes later says when.
            if speaker == "agent" and due is None and not _is(patterns, "later", sentence):
                return
            recipient = "you" if speaker != "owner" and _TO_YOU.search(sentence) else ""
            yield Promise(
                who="speaker", recipient=_find_recipient(sentence, recipient), text=sentence, due=due
            )
            return


def _matches(patterns: dict[str, re.Pattern[str]], kind: str, sentence: str, due: Due | None) -> bool:
    return _is(patterns, kind, sentence) or (due is not None and _is(patterns, f"{kind}_dated", sentence))


def _is(patterns: dict[str, re.Pattern[str]], kind: str, sentence: str) -> bool:
    pattern = patterns.get(kind)
    return pattern is not None and pattern.search(sentence) is not None


def _find_reported(patterns: dict[str, re.Pattern[str]], sentence: str, due: Due | None) -> str | None:
    """Find whose promise a sentence reports, if it reports one."""
    kinds = ("reported", "reported_ours", *(("reported_dated",) if due else ()))
    for kind in kinds:
        pattern = patterns.get(kind)
        match = pattern.search(sentence) if pattern else None
        if match is None or match["name"].startswith("I'"):
            continue
        first, *others = match["name"].split()
        # "The landlord" is somebody, "The Kia" isn't.
        if first not in _FIRST_WORDS or (others and others[-1].islower()):
            return match["name"]
    return None


def _find_recipient(sentence: str, otherwise: str) -> str:
    for match in _RECIPIENT.finditer(sentence):
        if not dates.is_date_name(match["name"].lower()) and match["name"] not in _FIRST_WORDS:
            return match["name"].removesuffix("'s")
    return otherwise


@cache
def _compile(code: str) -> dict[str, re.Pattern[str]]:
    given = lexicon(code).promises
    parts = {name: given[name] for name in ("act", "acting", "name", "please", "please_in") if name in given}
    return {
        kind: re.compile(_fill(pattern, parts), re.IGNORECASE)
        for kind, pattern in given.items()
        if kind not in parts
    }


def _fill(pattern: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        pattern = pattern.replace(f"{{{name}}}", part)
    return pattern


def _place(moment: dates.Moment, said_on: date) -> date | None:
    """Find the next such day: "the 5th", "27 November"."""
    assert moment.day is not None  # noqa: S101 - an invariant, for the reader and the type checker
    for months in range(13):
        year, month = divmod(said_on.year * 12 + said_on.month - 1 + months, 12)
        year, month = moment.year or year, moment.month or month + 1
        if moment.day <= monthrange(year, month)[1]:
            day = date(year, month, moment.day)
            if day >= said_on:
                return day
        if moment.year and moment.month:
            return None
        if moment.month and months:
            year = said_on.year + 1
            return date(year, month, min(moment.day, monthrange(year, month)[1]))
    return None


def _end_of(unit: str, said_on: date) -> date:
    match unit:
        case "week":
            return said_on + timedelta(days=max(4 - said_on.weekday(), 0))
        case "month":
            return said_on.replace(day=monthrange(said_on.year, said_on.month)[1])
        case "year":
            return date(said_on.year, 12, 31)
        case _:
            return said_on
