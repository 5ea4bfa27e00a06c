"""What people do with their words: state, ask, suppose, joke, quote, agree or deny. By rules alone.

The cues are those of `lexicons/<code>.py`. A language without them is taken to assert what it says.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from nexus.memory.languages.cues import compile_cue
from nexus.memory.languages.detection import DEFAULT, mixture
from nexus.memory.languages.lexicon import lexicon, lexicons

_SENTENCE: Final = re.compile(
    r"[^.!?…。！？\n]*(?:[.!?…。！？]+(?!\s|$|[\"”»」'\u2019])[^.!?…。！？\n]*)*[.!?…。！？]*[\"”»」]*"
)
# "am 17. Dezember", "Dr. Weber": the dot ends no sentence.
_NO_END: Final = re.compile(r"(?:\b\d{1,2}|\b(?:[A-Z]|Dr|Mr|Mrs|Ms|St|Prof|Sra?|Hr|Fr|No|Nr))\.\s*$")
_CLAUSE: Final = re.compile(r"[,;](?!\d)\s*|[、，]\s*|\s+[-–—]\s+|[–—]|:\s+")
_QUOTED: Final = re.compile(r"“[^”]*”|\"[^\"]*\"|«[^»]*»|„[^“”]*+[“”]|「[^」]*」|『[^』]*』")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_LONGEST: Final = 20_000
# Nobody means the beginning of a longer one together with its end.
_LONGEST_SENTENCE: Final = 1_000
# So much of a sentence's end holds whatever doesn't end it.
_ENDING: Final = 8
# An answer of so few words leaves to the question what it is about.
_SHORT_WORDS: Final = 4
_SHORT_CHARACTERS: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Clause:
    """A part of a sentence that says one thing, and how it is said."""

    text: str
    asks: bool = False
    supposes: bool = False
    jokes: bool = False
    quotes: bool = False
    negates: bool = False

    @property
    def asserts(self) -> bool:
        return not (self.asks or self.supposes or self.jokes)


@cache
def list_languages() -> tuple[str, ...]:
    """The languages that have cues."""
    return tuple(code for code, known in lexicons().items() if known.is_full)


def languages(*texts: str) -> tuple[str, ...]:
    """The languages with cues that texts may be in, the likeliest first. English is always among them."""
    found = dict.fromkeys(code for text in texts if text for code in mixture(text))
    return tuple(dict.fromkeys(code for code in (*found, DEFAULT) if code in list_languages()))


@lru_cache(maxsize=1024)
def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of a message, in order."""
    text = text[:_LONGEST]
    spoken = languages(text)
    jokes = says("joke", compile_cue("no_joke").sub(" ", normalize(text)), spoken)
    return tuple(
        clause for sentence in sentences(text) for clause in _cut_clauses(sentence, spoken, jokes=jokes)
    )


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the sign that ends it; one that goes on and on is cut."""
    found: list[str] = []
    for match in _SENTENCE.finditer(text):
        piece = match[0].strip()
        if not piece:
            continue
        is_begun = bool(found) and _NO_END.search(found[-1][-_ENDING:]) is not None
        is_line = "\n" not in text[match.start() - 1 : match.start()]
        if is_begun and is_line and len(found[-1]) + len(piece) < _LONGEST_SENTENCE:
            found[-1] = f"{found[-1]} {piece}"
        else:
            found += textwrap.wrap(piece, _LONGEST_SENTENCE) if len(piece) > _LONGEST_SENTENCE else [piece]
    return found


def answers_yes(text: str) -> bool:
    """Whether a message begins by agreeing, in any of the languages."""
    return _begins("yes", text)


def answers_no(text: str) -> bool:
    """Whether a message begins by denying, in any of the languages."""
    return _begins("no", text)


def is_short(text: str) -> bool:
    """Whether a message is too short to say by itself what it is about."""
    words = _WORD.findall(text)
    return len(words) <= _SHORT_WORDS and (len(words) > 1 or len(text.strip()) <= 3 * _SHORT_CHARACTERS)


def negates(text: str, spoken: Iterable[str] | None = None) -> bool:
    """Whether a statement denies something."""
    spoken = languages(text) if spoken is None else tuple(spoken)
    plain = normalize(text)
    for code in spoken:
        plain = _pattern(code, "harmless").sub(" ", plain)
    return says("negation", plain, spoken)


def says(cue: str, text: str, spoken: Iterable[str]) -> bool:
    """Whether a text holds a cue of one of these languages."""
    plain = normalize(text)
    return any(_pattern(code, cue).search(plain) is not None for code in spoken)


def found(cue: str, text: str, spoken: Iterable[str]) -> frozenset[str]:
    """The cues of these languages that a text holds."""
    plain = normalize(text)
    return frozenset(match[0] for code in spoken for match in _pattern(code, cue).finditer(plain))


def is_first_person(name: str) -> bool:
    """Whether a writer means whoever speaks: "I", "the owner", "moi"."""
    plain = normalize(name).strip(" .,'\"")
    return any(re.fullmatch(_cue(code, "me"), plain) for code in list_languages())


def speaks_of_others(text: str, spoken: Iterable[str]) -> bool:
    """Whether a clause begins with "he" or "she", and its speaker has no part in it."""
    plain = normalize(text)
    return compile_cue("other").match(plain) is not None and not speaks_of_self(text, spoken)


def names_nobody(text: str) -> bool:
    """Whether a text begins to speak of "her" or "them" without saying who that is."""
    return compile_cue("unnamed").match(normalize(text).strip()) is not None


def opens_with_self(text: str, spoken: Iterable[str]) -> bool:
    """Whether a statement begins with a word for whoever speaks: "I", "The owner's", "Le propriétaire"."""
    plain = normalize(text)
    return any(_opening_self(code).match(plain) for code in spoken)


def speaks_of_self(text: str, spoken: Iterable[str]) -> bool:
    """Whether a clause holds a word for whoever speaks."""
    plain = normalize(text)
    return any(re.search(rf"(?<!\w)(?:{_cue(code, 'me')})(?!\w)", plain) for code in spoken)


@lru_cache(maxsize=4096)
def numbers(text: str, spoken: tuple[str, ...] = ()) -> frozenset[str]:
    """The numbers of a text, in digits or in words, without separators: "1,200", "seventeenth", "十七"."""
    plain = normalize(text)
    joined = re.sub(r"(?<=\d)[.,\u00a0\u202f' ](?=\d{3}(?!\d))", "", plain)
    found = {_plain(number) for number in _NUMBER.findall(joined)}
    found |= {part for number in _NUMBER.findall(joined) for part in map(_plain, re.split(r"[.,:]", number))}
    words = set(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*|[一二三四五六七八九十]+", plain))
    for code in spoken or languages(text):
        table = _numerals(code)
        found |= {str(table[word]) for word in words if word in table}
        if code == "de":  # inflected: siebzehnte, siebzehnten, siebzehnter
            found |= {str(table[word[:-1]]) for word in words if word[:-1] in table and word[-1] in "nrsm"}
    return frozenset(found)


@cache
def _numerals(code: str) -> dict[str, int]:
    calendar = lexicon(code).calendar
    found = dict(calendar.numbers)
    for listed in (calendar.cardinals, calendar.ordinals):
        found |= {word: place for place, word in enumerate(listed, start=1)}
    return found | {word.casefold(): value for word, value in found.items()}


@lru_cache(maxsize=8192)
def normalize(text: str) -> str:
    """Lower case, in one form, with plain apostrophes. Accents stay: they tell words apart."""
    return unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").replace("\u2018", "'")


def align(text: str) -> str:
    """Normalize letter by letter, so that every place in the text is the same one in what comes out."""
    if text.isascii():
        return text.lower()
    return "".join(
        plain if len(plain := normalize(letter)) == 1 else letter.lower()[:1] or letter for letter in text
    )


def _cut_clauses(sentence: str, spoken: tuple[str, ...], *, jokes: bool) -> Iterator[Clause]:
    is_question = re.search(r"[?？][\"”»」]*$", sentence) is not None
    quotes = list(_QUOTED.finditer(sentence))
    pieces = _pieces(_QUOTED.sub(" ", sentence))
    asked = [says("asks", piece, spoken) and not says("remember", piece, spoken) for piece in pieces]
    supposes = says("hypothetical", sentence, spoken)
    asks_all = bool(pieces) and (asked[0] or _is_tag(pieces[-1]))
    for number, piece in enumerate(pieces):
        is_last = number == len(pieces) - 1
        asks = asked[number] or (
            is_question and (is_last or asks_all) and not says("remember", piece, spoken)
        )
        yield Clause(text=piece, asks=asks, supposes=supposes, jokes=jokes, negates=negates(piece, spoken))
    for quote in quotes:
        yield Clause(text=quote[0][1:-1], quotes=True, jokes=jokes, negates=negates(quote[0], spoken))


def _is_tag(piece: str) -> bool:
    """Whether a piece asks about all of its sentence: "Erik likes sushi, right?"."""
    said = normalize(piece)
    plain = said.rstrip("?？").rstrip()
    return plain != said.rstrip() and compile_cue("tag").fullmatch(plain) is not None


def _pieces(sentence: str) -> list[str]:
    """A sentence cut at its commas; a comma inside a number or a list of names cuts nothing that matters."""
    return [piece.strip() for piece in _CLAUSE.split(sentence) if piece.strip()]


def _begins(cue: str, text: str) -> bool:
    plain = normalize(text).strip()
    return any(
        re.match(rf"(?:{_cue(code, cue)})(?![\w'])" if code != "ja" else rf"(?:{_cue(code, cue)})", plain)
        for code in list_languages()
    )


def _plain(number: str) -> str:
    return number.lstrip("0") or "0"


@cache
def _pattern(code: str, cue: str) -> re.Pattern[str]:
    return re.compile(_cue(code, cue))


@cache
def _opening_self(code: str) -> re.Pattern[str]:
    article = lexicon(code).cues.get("article", "")
    return re.compile(rf"(?:{article})?(?:{_cue(code, 'me')})(?!\w)")


def _cue(code: str, cue: str) -> str:
    return lexicon(code).cues[cue]
