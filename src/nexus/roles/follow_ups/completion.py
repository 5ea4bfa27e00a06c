"""Whether what somebody says shows that a promise was kept. A follow-up stays open unless it is clear."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from nexus.context.wrapping import split_quotes
from nexus.ledgers.memory.follow_ups import FollowUp
from nexus.memory.languages import speech
from nexus.memory.languages.lexicon import lexicon, stem
from nexus.roles.follow_ups.promises import Speaker

_WORD: Final = re.compile(r"\w[\w-]*")
_SELF: Final = re.compile(r"\b(?:i|we|i've|we've)\b", re.IGNORECASE)
_PRONOUN: Final = re.compile(r"\b(?:it|that|this|them|those|him|her)\b", re.IGNORECASE)
_PASSIVE: Final = re.compile(r"\b(?:is|are|was|were|been)(?: now| already| finally)? \w+", re.IGNORECASE)
_FUTURE: Final = re.compile(
    r"\b(?:will|'ll|shall|going to|gonna|would|should|might|tomorrow)\b", re.IGNORECASE
)
_LONGEST: Final = 20_000
# Words of a promise that say nothing about what is promised.
_EMPTY: Final = frozenset(
    {"promis", "told", "said", "say", "tell", "back", "ok", "okay", "sure", "hi", "hey", "yes", "get", "go"}
    | {"let", "know", "have", "will", "would", "also", "thing", "as"}
)


@dataclass(frozen=True, slots=True)
class _Words:
    """The stems of a sentence, and which of them are verbs of the past."""

    all: frozenset[str]
    past: frozenset[str]


def may_tell(text: str) -> bool:
    """Whether a message may show that something is done, so that it is worth loading what is open."""
    plain = speech.normalize(text[:_LONGEST])
    for code in speech.languages(plain):
        patterns = lexicon(code).promises
        if patterns and re.search(f"{patterns['arrived']}|ed\\b|\\b(?:{'|'.join(_pasts(code))})\\b", plain):
            return True
    return False


def find_kept(
    text: str, standing: Sequence[FollowUp], *, speaker: Speaker, thread_id: str | None
) -> list[FollowUp]:
    """Find the follow-ups that a message shows to be done."""
    kept: dict[str, FollowUp] = {}
    if not standing:
        return []
    for sentence in speech.sentences(split_quotes(text[:_LONGEST])[0]):
        spoken = speech.languages(sentence)
        code = next((each for each in spoken if lexicon(each).promises), None)
        if code is None or sentence.endswith("?") or _FUTURE.search(sentence):
            continue
        if speech.negates(sentence, spoken) or speech.says("hypothetical", sentence, spoken):
            continue
        left = [each for each in standing if each.id not in kept]
        for each in _find_in(sentence, left, code, speaker, thread_id):
            kept[each.id] = each
    return list(kept.values())


def _find_in(
    sentence: str, standing: Sequence[FollowUp], code: str, speaker: Speaker, thread_id: str | None
) -> list[FollowUp]:
    patterns = lexicon(code).promises
    if re.search(patterns["done"], sentence, re.IGNORECASE):
        # A bare "Done" answers what was raised last in this conversation.
        raised = [each for each in standing if each.raised_at and each.reply_thread_id in (thread_id, None)]
        newest = max((each.raised_at or "" for each in raised), default="")
        last = [each for each in raised if each.raised_at == newest]
        return last if speaker == "owner" and len(last) == 1 else []
    said = _split(sentence, code)
    arrived = re.search(patterns["arrived"], sentence, re.IGNORECASE) is not None
    if not said.past and not arrived:
        return []
    names_self = _SELF.search(sentence) is not None
    named = _find_names(sentence, code)
    strong: list[tuple[int, FollowUp]] = []
    weak: list[FollowUp] = []
    for each in standing:
        names = _find_names(f"{each.promise} {each.promiser_name or ''}", code)
        is_elsewhere = bool(named and names and not named & names)
        if is_elsewhere or not _is_actor(sentence, each, speaker, names_self=names_self, arrived=arrived):
            continue
        promised = _split(each.promise, code)
        verbs = said.past & promised.all
        topic = promised.all - _EMPTY - names - verbs
        shared = topic & said.all
        told = verbs or (arrived and each.promiser != "owner")
        if told and (shared or (not topic and named & names)):
            strong.append((len(shared) + len(named & names), each))
        elif verbs and (_PRONOUN.search(sentence) or not topic):
            weak.append(each)
    if strong:
        # One sentence tells of one promise: the likeliest, the oldest of those that are alike.
        best = max(score for score, _ in strong)
        return [min((each for score, each in strong if score == best), key=lambda each: each.created_at)]
    # "I sent it" could be about any of several.
    return weak if len(weak) == 1 else []


def _is_actor(sentence: str, found: FollowUp, speaker: Speaker, *, names_self: bool, arrived: bool) -> bool:
    """Whether a sentence is about the one who promised."""
    if speaker == "agent":
        return found.promiser == "agent" and names_self
    if speaker == "other":
        return found.promiser == "other"
    name = (found.promiser_name or "").split()
    is_named = bool(name) and re.search(rf"\b{re.escape(name[-1])}\b", sentence, re.IGNORECASE) is not None
    if found.promiser == "owner":
        return names_self or _names_nobody(sentence) or _PASSIVE.search(sentence) is not None
    return arrived or (found.promiser == "other" and is_named)


def _find_names(sentence: str, code: str) -> frozenset[str]:
    """Find the stems of the words with a capital that are neither function words, days nor verbs."""
    known = lexicon(code)
    left_out = known.function_words | known.time_words | _pasts(code).keys() | known.nobody
    words = (word.lower() for word in _WORD.findall(sentence) if word[0].isupper())
    return (
        frozenset(stem(word, code) for word in words if word not in left_out and not word.endswith("ed"))
        - _EMPTY
    )


def _names_nobody(sentence: str) -> bool:
    """Whether a sentence has no subject but its speaker: "Sent Jonas the slides"."""
    first = next(iter(_WORD.findall(speech.normalize(sentence))), "")
    return first in _pasts("en") or first.endswith("ed") or first in {"just", "already", "finally"}


def _split(sentence: str, code: str) -> _Words:
    known = lexicon(code)
    empty = known.function_words | known.time_words
    irregular = _pasts(code)
    found: set[str] = set()
    past: set[str] = set()
    for word in _WORD.findall(speech.normalize(sentence)):
        if word in empty and word not in irregular:
            continue
        base = irregular.get(word, word)
        own = stem(base, code)
        found.add(own)
        if word in irregular or word.endswith("ed"):
            past.add(own)
    return _Words(frozenset(found), frozenset(past))


@cache
def _pasts(code: str) -> dict[str, str]:
    """Past forms with their verbs."""
    pairs = (pair.split(":") for pair in lexicon(code).promises.get("past", "").split())
    return {form: base for base, forms in pairs for form in forms.split(",")}
