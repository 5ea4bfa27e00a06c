"""Two facts side by side, as numbers: what speaks for the later one replacing the earlier one."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Final

from nexus import clock
from nexus.ledgers.memory import How
from nexus.memory.languages.dates import list_month_names, list_weekday_names
from nexus.memory.languages.lexicon import lexicons

# Of a list of beginnings, words up to this length are whole words.
_WHOLE_UP_TO: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")
_MONEY: Final = re.compile(
    r"[€£$¥]|\b(?:eur|usd|gbp|cad|chf|euros?|dollars?|pounds?|kronor|reais|francs?)\b", re.IGNORECASE
)
_CLOCK: Final = re.compile(
    r"\b\d{1,2}(?:[:.h]\d\d)?\s?(?:[ap]\.?m\b|uhr\b|h\b)|\b\d{1,2}[:h]\d\d\b", re.IGNORECASE
)
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
# Inflected forms of a word mostly agree in so many letters.
_STEM: Final = 6
_SHORTEST: Final = 3
# What follows within so many hours in a conversation belongs to the same talk.
_TALK_HOURS: Final = 6.0
_HAPPENED: Final = re.compile(
    r"\b(?:went|wanted|was|were|had|did|made|met|saw|came|got|took|gave|bought|told|said|found|fixed|sent|wrote|ate"
    r"|ran|brought|thought|felt|heard|lost|won|built|broke|spoke|slept|drove|flew|\w{3,}ed)\b"
)
_HOLDS: Final = re.compile(
    r"\b(?:is|are|am|has|have|will|does|do|can|must|should|lives|works|costs|takes|starts|opens|runs|likes|wants|"
    r"owns|uses|plays|moved|moves|postponed|pushed|cancelled|canceled|called off|rescheduled|now)\b"
)
_SENTENCES: Final = re.compile(r"(?<=[.!?;\u2026\n])\s+|(?<!\s)\s+-\s+")
_FEW_SENTENCES: Final = 2
_OPENING_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019]\w+)?")
# Whoever speaks, and the little words inside a name.
_SPEAKERS: Final = {
    "i": "i", "i'm": "i", "i've": "i", "we": "we", "we're": "we", "we've": "we", "ich": "ich", "wir": "wir",
    "je": "je", "j'ai": "je", "nous": "nous", "yo": "yo", "eu": "eu",
}  # fmt: skip
_OF: Final = frozenset({"of", "the", "von", "der", "des", "de", "du", "la", "del", "do", "da"})
# A value is a word, a name of two or a day with its month; the rest of the sentence says more than that.
_VALUE_WORDS: Final = 2
_SHARED_WORDS: Final = 3
UNNAMED: Final = "word:"
"""How the subject of a fact begins that is about no entity: what follows is a word of it."""


class _Phrases:
    """A pattern of whole phrases, compiled when it is first looked for: all of them take a while."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        said = {phrase for known in lexicons().values() for phrase in known.changes.get(self._name, ())}
        longest_first = sorted(map(re.escape, said), key=len, reverse=True)
        return re.compile(rf"(?<!\S)(?:{'|'.join(longest_first)})(?!\S)").search


def _beginnings(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(word if len(word) <= _WHOLE_UP_TO else rf"{word}\w*" for word in words))


CHANGE: Final = _Phrases("change")
"""Something is different from now on, or from a given date."""
END: Final = _Phrases("end")
"""Something that held has ended."""
CORRECTION: Final = _Phrases("correction")
"""Something that was said a moment ago was wrong."""
RESCHEDULING: Final = _Phrases("reschedule")
"""Something takes place at another time."""
CANCELLATION: Final = _Phrases("cancellation")
"""Something that was arranged won't happen."""
ADDITION: Final = _Phrases("addition")
"""Something holds beside what was there before."""
EXCEPTION: Final = _Phrases("exception")
"""Something holds for a while, and the rule stays."""
MANY: Final = _Phrases("many")
"""Something of which one can have, do or like many."""
PLAN: Final = _Phrases("plan")
"""Something was only planned, expected or wished for."""
HEARSAY: Final = _Phrases("hearsay")
"""Something was joked, rumored, considered or offered."""
PAST: Final = _Phrases("past")
"""Something was so before, and is told again."""


@cache
def _weekdays() -> frozenset[str]:
    return frozenset(fold(name) for code in _codes() for name in list_weekday_names(code))


@cache
def _months() -> frozenset[str]:
    # The weights were learned without the Portuguese November.
    return frozenset(fold(name) for code in _codes() for name in list_month_names(code)) - {"novembro"}


@cache
def _date_stems() -> frozenset[str]:
    return frozenset(map(stem, _weekdays() | _months()))


@cache
def _fillers() -> frozenset[str]:
    return frozenset[str]().union(*(known.fillers for known in lexicons().values()))


def _codes() -> list[str]:
    return [code for code, known in lexicons().items() if known.changes]


@cache
def _from_date() -> re.Pattern[str]:
    """ "From 13 November on", "ab März", "desde 2026": not the hours of "from 9 to 5"."""
    return re.compile(
        rf"\b(?:from|as of|starting|ab|desde|a partir de|a partir du|depuis) (?:the |dem |el |le )?(?:next|"
        rf"(?:\d{{1,2}} (?:de )?)?(?:{'|'.join(sorted(_months()))})|(?:19|20)\d\d)\b"
    )


# What somebody or something has one of at a time, by the beginnings of the words that speak of it.
@cache
def _attribute_patterns() -> dict[str, re.Pattern[str]]:
    words_of: dict[str, list[str]] = {}
    for known in lexicons().values():
        for name, words in known.attributes.items():
            words_of.setdefault(name, []).extend(words)
    return {name: _beginnings(words) for name, words in words_of.items()}


# Of these nearly everybody has one at a time.
_SLOTS: Final = frozenset({"home", "work", "school", "partner", "doctor", "name"})


def attributes(words: Iterable[str]) -> frozenset[str]:
    """The attributes that a text speaks of, by its folded words."""
    spoken = list(words)
    return frozenset(
        name
        for name, pattern in _attribute_patterns().items()
        if any(pattern.fullmatch(word) for word in spoken)
    )


@dataclass(frozen=True, slots=True)
class Text:
    """What is compared of a text."""

    stems: frozenset[str]
    numbers: frozenset[str]
    weekdays: frozenset[str]
    dates: frozenset[str]
    years: frozenset[str]
    attributes: frozenset[str]
    money: bool
    clock: bool
    changes: bool
    ends: bool
    adds: bool
    plans: bool
    corrects: bool
    cancels: bool
    reschedules: bool
    excepts: bool
    is_one_of_many: bool
    is_hearsay: bool
    is_past: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A fact, as far as another may replace it."""

    id: str
    text: str
    at: str  # when it was true
    seq: int
    subject: str | None = None
    target: str | None = None
    relation_type: str | None = None
    entities: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # stems of what its entities are called
    event_id: str | None = None
    thread_id: str | None = None
    message: str = ""  # what was said when it was learned
    scope: str = ""  # the channel outside which nothing can replace it
    valid_until: str | None = None
    confidence: float = 1.0

    @property
    def place(self) -> tuple[str, int]:
        """Where it stands in time."""
        return self.at, self.seq


@dataclass(frozen=True, kw_only=True, slots=True)
class Nearness:
    """How near two statements are in meaning, beside other statements."""

    closeness: float  # cosine, in standard deviations above that of unrelated texts
    rank: int  # of the earlier one among what is known when the later one is learned; 1 is the nearest
    margin: float  # how much nearer it is than the next best, or how much farther than the best


@lru_cache(maxsize=8192)
def read(text: str) -> Text:
    """What a text says that matters here."""
    plain = fold(text)
    words = _WORD.findall(plain)
    running = " ".join(words)
    numbers = frozenset(_numbers(text))
    return Text(
        stems=frozenset(stem(word) for word in words if _tells(word)),
        numbers=numbers,
        weekdays=frozenset(word.rstrip("s") for word in words if word in _weekdays()),
        dates=frozenset(word for word in words if word in _months()),
        years=frozenset(number for number in numbers if _YEAR.fullmatch(number)),
        attributes=attributes(words),
        money=_MONEY.search(text) is not None,
        clock=_CLOCK.search(text) is not None,
        changes=CHANGE.search(running) is not None or _from_date().search(running) is not None,
        ends=END.search(running) is not None,
        adds=ADDITION.search(running) is not None,
        plans=PLAN.search(running) is not None,
        corrects=CORRECTION.search(running) is not None,
        cancels=CANCELLATION.search(running) is not None,
        reschedules=RESCHEDULING.search(running) is not None,
        excepts=EXCEPTION.search(running) is not None,
        is_one_of_many=MANY.search(running) is not None,
        is_hearsay=HEARSAY.search(running) is not None,
        is_past=PAST.search(running) is not None,
    )


def features(old: Statement, new: Statement, near: Nearness) -> dict[str, float]:
    """What the judge weighs. `old` is the earlier one."""
    one, two, said = read(old.text), read(new.text), read(_clause(new))
    shared_names = old.names & new.names
    first, second = one.stems - shared_names, two.stems - shared_names
    both = first & second
    share = len(both) / max(1, min(len(first), len(second)))
    value_differs = _differ(one, two)
    is_same_month = bool(one.dates) and one.dates == two.dates
    other_day = float(is_same_month and bool(one.numbers and two.numbers) and not one.numbers & two.numbers)
    if value_differs and not first - _date_stems():
        share = 1.0  # the old one says nothing but a value of what both are about
    overlap = len(both) / max(1, len(first | second))
    closeness = min(near.closeness, 6.0)
    hours = max(0.0, (clock.parse(new.at) - clock.parse(old.at)).total_seconds() / 3_600)
    is_same_message = old.event_id is not None and old.event_id == new.event_id
    is_same_talk = hours < _TALK_HOURS and (
        old.thread_id is None or new.thread_id is None or old.thread_id == new.thread_id
    )
    same_attribute = float(bool(one.attributes & two.attributes))
    changed = float(two.changes or two.ends)
    corrected = float(said.corrects)
    announced = float(said.changes or said.ends or said.cancels)
    # What the old one says and the new one doesn't, named where the new one was said: "not the 14th".
    lost = (one.stems | one.numbers | one.weekdays) - (two.stems | two.numbers | two.weekdays)
    named = read(new.message) if new.message else two
    lost_named = len(lost & (named.stems | named.numbers | named.weekdays)) / max(1, len(lost))
    restated = float(restates(old, new))
    is_list = float(one.is_one_of_many and two.is_one_of_many)
    return {
        "closeness": closeness,
        "nearest": 1.0 if near.rank == 1 else 0.0,
        "rank": 1.0 / near.rank,
        "margin": max(-2.0, min(2.0, near.margin)),
        "same_subject": float(old.subject is not None and old.subject == new.subject),
        "same_entities": len(old.entities & new.entities) / max(1, len(old.entities | new.entities)),
        "other_entity": float(bool(old.entities - new.entities) and bool(new.entities - old.entities)),
        "no_entity": float(not old.entities & new.entities),
        "share": share,
        "overlap": overlap,
        "first_word": float(_opening(old) == _opening(new)),
        "changes": float(two.changes),
        "ends": float(two.ends),
        "cancels": float(two.cancels),
        "adds": float(two.adds),
        "planned": float(one.plans),
        "excepts": float(two.excepts and not one.excepts),
        "hearsay": float(two.is_hearsay and not one.is_hearsay),
        "one_of_many": is_list,
        "one_of_many_uncued": is_list * float(not (changed or announced or corrected)),
        "uncued_share": share * float(not (changed or announced or corrected)),
        "past": float(two.is_past),
        "old_past": float(one.is_past),
        "restates": restated,
        "restates_cued": restated * max(changed, announced, corrected),
        "numbers_differ": float(bool(one.numbers) and bool(two.numbers) and not one.numbers & two.numbers),
        "numbers_shared": float(bool(one.numbers & two.numbers)),
        "weekdays_differ": float(bool(one.weekdays) and bool(two.weekdays) and one.weekdays != two.weekdays),
        "both_money": float(one.money and two.money),
        "both_clock": float(one.clock and two.clock),
        "both_dates": float(bool(one.dates) and bool(two.dates)),
        "one_money": float(one.money != two.money),
        "value_differs": value_differs,
        "value_differs_share": value_differs * share,
        "rescheduled": max(value_differs, other_day)
        * float((two.reschedules or said.reschedules) and bool(old.entities & new.entities)),
        "days": math.log1p(hours / 24),
        "same_attribute": same_attribute,
        "other_attribute": float(
            bool(one.attributes) and bool(two.attributes) and not one.attributes & two.attributes
        ),
        "attribute_changed": same_attribute * changed,
        "slot_changed": float(
            bool(one.attributes & two.attributes & _SLOTS)
            and old.subject is not None
            and old.subject == new.subject
            and two.changes
            and not two.adds
        ),
        "years_differ": float(bool(one.years) and bool(two.years) and not one.years & two.years),
        "old_changes": float(one.changes),
        "changed_share": changed * share,
        "changed_closeness": changed * closeness,
        "share_closeness": share * closeness,
        "same_message": float(is_same_message),
        "same_talk": float(is_same_talk and not is_same_message),
        "same_talk_share": float(is_same_talk) * share,
        "same_talk_nearest": float(is_same_talk) * float(near.rank == 1),
        "corrected": corrected,
        "corrected_in_talk": corrected * float(is_same_talk),
        "corrected_nearest": corrected * float(near.rank == 1),
        "corrected_share": corrected * share,
        "announced": announced,
        "announced_share": announced * share,
        "announced_nearest": announced * float(near.rank == 1),
        "said_adds": float(said.adds),
        "said_excepts": float(said.excepts),
        "said_hearsay": float(said.is_hearsay),
        "lost_named": lost_named,
        "lost_named_cued": lost_named * max(changed, announced, corrected),
    }


def how_replaced(old: Statement, new: Statement) -> How:
    """How a statement came to be replaced, by what was said with the new one."""
    two, said = read(new.text), read(_clause(new))
    hours = (clock.parse(new.at) - clock.parse(old.at)).total_seconds() / 3_600
    if two.cancels or said.cancels:
        return "cancelled"
    is_same_message = old.event_id is not None and old.event_id == new.event_id
    return "corrected" if is_same_message or (said.corrects and hours < _TALK_HOURS) else "changed"


def _clause(statement: Statement) -> str:
    """The part of its message that speaks of a statement, with what stands before it."""
    if not statement.message:
        return ""
    sentences = [each for each in _SENTENCES.split(statement.message) if each.strip()]
    if len(sentences) <= _FEW_SENTENCES:
        return statement.message
    told = read(statement.text)
    wanted = told.stems | told.numbers | told.weekdays

    def shared(at: int) -> int:
        said = read(sentences[at])
        return len(wanted & (said.stems | said.numbers | said.weekdays))

    best = max(range(len(sentences)), key=shared)
    return " ".join(sentences[max(0, best - 1) : best + 1])


def restates(old: Statement, new: Statement) -> bool:
    """Whether the later one says the same again, perhaps with more detail: nothing is taken back."""
    one, two = read(old.text), read(new.text)
    if (two.ends or two.cancels) and not (one.ends or one.cancels):
        return False
    return one.stems <= two.stems and one.numbers <= two.numbers and one.weekdays <= two.weekdays


def differ_in_value(one: Statement, two: Statement) -> bool:
    """Whether two statements are the same sentence but for one value: a number, a date, a name.

    Two readings on two days differ in more than one.
    """
    if one.subject is None or one.subject != two.subject:
        return False
    first, second = _WORD.findall(one.text), _WORD.findall(two.text)
    if not 0 <= abs(len(first) - len(second)) <= 1:
        return False
    only_first, only_second = _leave_out(first, second), _leave_out(second, first)
    if not (1 <= len(only_first) <= _VALUE_WORDS and 1 <= len(only_second) <= _VALUE_WORDS):
        return False
    if not all(map(_is_value, only_first)) or not all(map(_is_value, only_second)):
        return False
    happened = tells_event(one.text) and tells_event(two.text)
    if happened and not any(map(_is_date, only_first)):
        return False  # one meets many people, but a thing happens on one day
    kept = _leave_out(first, only_first)
    shared = [word for word in kept if word[0].isdigit() or _tells(fold(word))]
    return len(shared) >= _SHARED_WORDS


def _leave_out(words: list[str], others: list[str]) -> list[str]:
    left = Counter(map(fold, others))
    kept: list[str] = []
    for word in words:
        if left[fold(word)]:
            left[fold(word)] -= 1
        else:
            kept.append(word)
    return kept


def _is_value(word: str) -> bool:
    return word[0].isupper() or _is_date(word)


def _is_date(word: str) -> bool:
    return word[0].isdigit() or fold(word) in _weekdays() | _months()


@lru_cache(maxsize=8192)
def tells_event(text: str) -> bool:
    """Whether a text tells what happened once, in the past tense, and not how things are. English alone."""
    return _HAPPENED.search(text) is not None and _HOLDS.search(text) is None


def fold(text: str) -> str:
    """Lower case, without accents."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part))


def stem(word: str) -> str:
    """The beginning of a word, which its forms share."""
    return word[:_STEM]


def stems_of(text: str) -> frozenset[str]:
    """The stems of all words of a name."""
    return frozenset(stem(word) for word in _WORD.findall(fold(text)) if len(word) >= _SHORTEST)


def opening_names(text: str) -> tuple[str, ...]:
    """Return stems of whom or what a text begins with: "Clara", "The launch", "The rent of the shop"."""
    found: list[str] = []
    for word in _OPENING_WORD.findall(text):
        plain = fold(word.replace("\u2019", "'").removesuffix("'s"))
        if not found and plain in _SPEAKERS:
            return (_SPEAKERS[plain],)
        if found and plain in _OF:
            continue
        if found and not word[0].isupper():
            break
        if _tells(plain):
            found.append(stem(plain))
        elif found:
            break
    return tuple(found)


def _tells(word: str) -> bool:
    return word.isalpha() and len(word) >= _SHORTEST and word not in _fillers()


def _numbers(text: str) -> list[str]:
    """The numbers of a text, whatever separates their thousands."""
    joined = re.sub(r"(?<=\d)[.,\u00a0\u202f ](?=\d{3}(?!\d))", "", text)
    return re.findall(r"\d+(?:[.,:]\d+)?", joined)


def _opening(statement: Statement) -> str:
    words = _WORD.findall(fold(statement.text))
    return words[0] if words else ""


def _differ(one: Text, two: Text) -> float:
    """Whether a value of the same kind is said in both, and is another."""
    kinds = (
        (one.weekdays, two.weekdays),
        (one.numbers if one.money else frozenset[str](), two.numbers if two.money else frozenset[str]()),
        (one.numbers if one.clock else frozenset[str](), two.numbers if two.clock else frozenset[str]()),
        (one.dates, two.dates),
    )
    return float(any(first and second and first != second for first, second in kinds))
