"""Citations, and whether facts support a sentence: every name and number in it must stand in one of them.

This does not prove that a sentence is right. It finds what a model made up, copied from an example, or cited
by the wrong id.
"""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nexus.memory.languages import DEFAULT, detect, fold, lexicon, stem

_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_][\w'\u2019-]*")
_SENTENCE: Final = re.compile(r"(?<=[.!?;:])\s+")
# Languages that write every noun with a capital: there only two in a row are taken for a name.
_CAPITALIZES_NOUNS: Final = frozenset({"de"})
# "Currently", "récemment", "actualmente", "beispielsweise": no names, even at the beginning.
_ADVERB: Final = re.compile(r"(?:ly|ment|mente|weise)$")
_VERB: Final = re.compile(
    r"(?:s|ed)$|^(?:will|can|had|ist|war|hat|tiene|vive|era|est|était|habite|é|foi|tem)$"
)
_PLACEHOLDER: Final = re.compile(r"<[A-Z][A-Z0-9_]*>|\{[A-Z][A-Z0-9_]*\}")
# `[fact_01…]` or `[fact_01…, obs_01…]`; and an id that stands in the text without brackets.
_CITATION: Final = re.compile(
    r"(?<![ \t])[ \t]*\[((?:fact|obs|mod)_[^\]\n]*)\]|(?<![\w\[])((?:fact|obs|mod)_[0-9A-Za-z]{8,})"
)
_BETWEEN: Final = re.compile(r"[\s,;]+")
_END: Final = re.compile(r"(?<=[.!?])\s+|\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Repair:
    """The facts that a sentence rests on after wrong citations were put right."""

    fact_ids: tuple[str, ...]
    repaired: bool = False


def find_claims(text: str) -> frozenset[str]:
    """Find the names and numbers in a text, in the form in which they are compared."""
    return frozenset(claim for sentence in _SENTENCE.split(text) for claim in _find_claims(sentence))


def find_unsupported(text: str, support: Iterable[str]) -> frozenset[str]:
    """Find the names and numbers of a text that none of the supporting texts holds."""
    held = _collect_words(support)
    return frozenset(claim for claim in find_claims(text) if not _is_held(claim, held))


def copies_placeholder(text: str) -> bool:
    """Whether a text has a placeholder of an example in it."""
    return _PLACEHOLDER.search(text) is not None


def repair_citations(
    text: str, cited: Iterable[str], shown: Mapping[str, str], beside: Iterable[str] = ()
) -> Repair | None:
    """Repair the citations of a text if exactly one other fact holds what is missing; None otherwise.

    `shown` has the text of every fact that could be cited; `beside`, what supports it without being a fact.
    """
    given, beside = tuple(dict.fromkeys(cited)), list(beside)
    missing = find_unsupported(text, [*(shown.get(id_, "") for id_ in given), *beside])
    if not missing:
        return Repair(fact_ids=given)
    able = [id_ for id_, fact in shown.items() if id_ not in given and not find_missing(missing, fact)]
    if len(able) != 1:
        return None
    # What supports nothing of the text was cited by mistake.
    wanted = find_claims(text)
    kept = [id_ for id_ in given if find_missing(wanted - missing, shown.get(id_, "")) != wanted - missing]
    return Repair(fact_ids=(*kept, able[0]), repaired=True)


def find_missing(missing: Iterable[str], fact: str) -> frozenset[str]:
    """Find those of some names and numbers that a fact does not hold."""
    held = _collect_words([fact])
    return frozenset(claim for claim in missing if not _is_held(claim, held))


def _find_claims(sentence: str) -> Iterable[str]:
    language = detect(sentence)
    words = _WORD.findall(sentence)
    for place, word in enumerate(words):
        if word[0].isdigit():
            yield word.strip(".,:")
        elif word[0].isupper() and _is_name(words, place, language):
            yield _normalize(word)


def _is_name(words: list[str], place: int, language: str) -> bool:
    word = _strip_possessive(words[place])
    if len(word) < 2 or word.lower() in _ordinary(language):
        return False
    before = _strip_possessive(words[place - 1]) if place else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    leads = after[:1].isupper()
    if language in _CAPITALIZES_NOUNS:
        return leads or (before[:1].isupper() and before.lower() not in _ordinary(language))
    # The first word of a sentence is capitalized in any case: who does something is named there.
    names_doer = (leads or bool(_VERB.search(after))) and not _ADVERB.search(word.lower())
    return place > 0 or names_doer


def _ordinary(language: str) -> frozenset[str]:
    """List words that are no names even if capitalized: function words, months and weekdays."""
    known, default = lexicon(language), lexicon(DEFAULT)
    return known.function_words | known.time_words | known.number_words | default.time_words


def _strip_possessive(word: str) -> str:
    return re.sub(r"['\u2019]s?$", "", word)


def _normalize(word: str) -> str:
    return fold(_strip_possessive(word).lower())


def _collect_words(support: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*map(_find_words, support))


# A conclusion is compared with the same few hundred facts for each of its citations.
@lru_cache(maxsize=1_024)
def _find_words(text: str) -> frozenset[str]:
    found: set[str] = set()
    language = detect(text)
    for word in _WORD.findall(text):
        if word[0].isdigit():
            found |= {word.strip(".,:"), word.strip(".,:").lstrip("0"), *re.split(r"[.,:]", word)}
        else:
            found |= {_normalize(word), stem(_strip_possessive(word).lower(), language)}
    return frozenset(found)


def _is_held(claim: str, held: frozenset[str]) -> bool:
    if claim in held or claim.lstrip("0") in held:
        return True
    if claim[0].isdigit():
        return False
    # A genitive, or another inflection of the same word.
    return claim.rstrip("s") in held or stem(claim, DEFAULT) in held or f"{claim}s" in held


@dataclass(frozen=True, kw_only=True, slots=True)
class Cited:
    """An answer whose every citation leads to something that was retrieved."""

    text: str
    ids: tuple[str, ...]
    """In the order in which they are first cited."""
    removed: tuple[str, ...]
    """What was cited and not retrieved, and is not in the text any more."""


def find_citations(text: str) -> tuple[str, ...]:
    """Find the ids that a text cites, each once, in order."""
    cited = (id_ for match in _CITATION.finditer(text) for id_ in _BETWEEN.split(match[1] or match[2]))
    return tuple(dict.fromkeys(filter(None, cited)))


def check_citations(text: str, retrieved: Mapping[str, str] | Set[str]) -> Cited:
    """Drop citations of an answer that were not retrieved.

    Given what each retrieved thing says, a citation must also support the names and numbers before it: one
    that is off is put right if exactly one retrieved thing fits, and taken out otherwise.
    """
    shown: Mapping[str, str] = retrieved if isinstance(retrieved, Mapping) else {}
    # An answer that recites an example says nothing about the memory.
    is_recited = copies_placeholder(text)
    kept: dict[str, None] = {}
    removed: dict[str, None] = {}
    ends = [0]

    def choose_cited(statement: str, cited: list[str]) -> list[str]:
        known = [id_ for id_ in cited if id_ in retrieved]
        if is_recited or not shown or not known:
            return [] if is_recited else known
        right = repair_citations(statement, known, shown)
        return [] if right is None else list(right.fact_ids)

    def replace_citation(match: re.Match[str]) -> str:
        cited = [id_ for id_ in _BETWEEN.split(match[1] or match[2]) if id_]
        # What a citation stands behind: its sentence, after the citation before it.
        found = choose_cited(_END.split(text[ends[-1] : match.start()])[-1], cited)
        ends.append(match.end())
        kept.update(dict.fromkeys(found))
        removed.update(dict.fromkeys(id_ for id_ in cited if id_ not in found))
        told = ", ".join(found)
        return f" [{told}]" if told and match[1] else told

    cleaned = _CITATION.sub(replace_citation, text)
    return Cited(text=cleaned.strip(), ids=tuple(kept), removed=tuple(removed))
