"""What a message is, what kind of answer it asks for and what kind of work it is, by its words.

The patterns are the cues and topics of `lexicons/<code>.py`. Of a language without them nothing is told.
"""

import re
from functools import cache, lru_cache
from typing import Final, Literal

from nexus.memory.languages.detection import detect
from nexus.memory.languages.lexicon import lexicon, lexicons

# Ends of sentences, in any script.
_ENDS = ".!?\u2026\u3002\uff01\uff1f\u061f"
_SENTENCE = re.compile(rf"[^{_ENDS}\n]+[{_ENDS}]*")
_ASKS = ("?", "\uff1f", "\u061f")
_LONGEST_WHOLE = 4
# What a message asks stands in its first part.
_LONGEST = 2_000
_NONE: frozenset[str] = frozenset()
# Cues that begin where a word does, in every language: most places of a text are none, and soon passed.
BEGIN_WORDS: Final = frozenset({"constraint", "restriction", "reason", "lasting"})
_TOPIC_WORD = re.compile(r"[^\W\d_][\w'-]*|[£€$]")
# Without a question mark only a short sentence that begins like a question is one.
_SHORT_QUESTION = 12


@lru_cache(maxsize=4096)
def asks(text: str) -> bool:
    """Whether a text ends in a question, with or without its mark."""
    sentences = _sentences(text)
    return bool(sentences) and _is_question(sentences[-1], detect(text))


@lru_cache(maxsize=4096)
def orders(text: str) -> bool:
    """Whether a text tells somebody to do something."""
    return any(_is_request(sentence) for sentence in _sentences(text))


@lru_cache(maxsize=4096)
def states(text: str) -> bool:
    """Whether any sentence of a text is a statement: neither a question, nor a request, nor a mere word."""
    language = detect(text)
    return any(
        len(sentence.split()) > 1 and not _is_question(sentence, language) and not _is_request(sentence)
        for sentence in _sentences(text)
    )


def _sentences(text: str) -> list[str]:
    found = (match.group().strip() for match in _SENTENCE.finditer(text))
    return [sentence for sentence in found if any(character.isalnum() for character in sentence)]


def _is_question(sentence: str, language: str) -> bool:
    if sentence.endswith(_ASKS):
        return True
    is_short = len(sentence.split()) <= _SHORT_QUESTION and "," not in sentence
    return is_short and _says("question", sentence, language)


def _is_request(sentence: str) -> bool:
    return compile_cue("request").match(sentence) is not None


def asks_when(text: str, language: str) -> bool:
    """Whether the answer is a time."""
    return _says("when", text, language)


def asks_count(text: str, language: str) -> bool:
    """Whether the answer is a number."""
    return _says("count", text, language)


def asks_why(text: str, language: str) -> bool:
    """Whether the answer is a reason or a cause."""
    return _says("why", text, language)


@lru_cache(maxsize=4096)
def gives_reason(text: str) -> bool:
    """Whether a text of any of the languages says why something is so."""
    return compile_cue("reason").search(text) is not None


@lru_cache(maxsize=16384)
def constrains(text: str) -> bool:
    """Whether a text says what somebody must, must not, cannot or likes to have."""
    return compile_cue("constraint").search(text) is not None


@lru_cache(maxsize=4096)
def restricts(text: str) -> bool:
    """Whether a text says what somebody's body or belief rules out: an allergy, a diet, an illness."""
    return compile_cue("restriction").search(text) is not None


@lru_cache(maxsize=4096)
def settles(text: str) -> bool:
    """Whether a text says where somebody lives or what they do for a living."""
    return compile_cue("circumstance").search(text) is not None


def asks_past(text: str, language: str) -> bool:
    """Whether it asks how things were before they changed: "where did Clara live before?".

    "Before" alone is a deadline in a request, and of what is still to be done: "write to Ann before Friday".
    """
    if _says("present", text, language):
        return False
    is_deadline = _says("due", text, language) or orders(text)
    return _says("past", text, language) or (_says("before", text, language) and not is_deadline)


def asks_first(text: str, language: str) -> bool:
    """Whether it asks how things were in the very beginning: "what was the original date?"."""
    return _says("first", text, language)


def what_followed(text: str, language: str) -> str:
    """Return what a question says came later: "the ferry" of "how did she get here before the ferry?"."""
    pattern = _pattern("before", language)
    found = pattern.search(text) if pattern is not None else None
    return text[found.end() :] if found else ""


def asks_survey(text: str, language: str) -> bool:
    """Whether it asks for an overview of many things instead of one."""
    return _says("survey", text, language)


def first_person(text: str, language: str) -> bool:
    """Whether the person who asks is part of the question."""
    return _says("first_person", text, language)


def _says(cue: str, text: str, language: str) -> bool:
    pattern = _pattern(cue, language)
    return pattern is not None and pattern.search(text, 0, _LONGEST) is not None


@cache
def compile_cue(cue: str) -> re.Pattern[str]:
    """Compile the patterns of a cue in every language that has it as one."""
    found = [pattern for known in lexicons().values() if (pattern := known.cues.get(cue))]
    every = "|".join(f"(?:{pattern})" for pattern in found)
    return re.compile(rf"\b(?=\w)(?:{every})" if cue in BEGIN_WORDS else every, re.IGNORECASE)


@cache
def _pattern(cue: str, language: str) -> re.Pattern[str] | None:
    pattern = lexicon(language).cues.get(cue)
    return re.compile(pattern, re.IGNORECASE) if pattern else None


@lru_cache(maxsize=4096)
def find_task_topics(text: str) -> frozenset[str]:
    """Find the kinds of work that a task is."""
    return _find_topics(text, "task")


@lru_cache(maxsize=16384)
def find_fact_topics(text: str) -> frozenset[str]:
    """Find the kinds of work for which a fact matters."""
    return _find_topics(text, "fact")


def _find_topics(text: str, side: Literal["task", "fact"]) -> frozenset[str]:
    whole, beginnings = _topic_words(side)
    longest = max(map(len, beginnings))
    found: set[str] = set()
    for word in {word.lower() for word in _TOPIC_WORD.findall(text)}:
        found |= whole.get(word, _NONE)
        for length in range(_LONGEST_WHOLE + 1, min(len(word), longest) + 1):
            found |= beginnings.get(word[:length], _NONE)
    return frozenset(found)


@cache
def _topic_words(
    side: Literal["task", "fact"],
) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """The kinds of work by whole words and by beginnings.

    Short words stand for themselves and their plural; longer ones also for what begins with them.
    """
    whole: dict[str, frozenset[str]] = {}
    beginnings: dict[str, frozenset[str]] = {}
    for topic, words in (each for known in lexicons().values() for each in known.topics.items()):
        for stem in words.task if side == "task" else words.fact:
            if len(stem) > _LONGEST_WHOLE:
                beginnings[stem] = beginnings.get(stem, _NONE) | {topic}
                continue
            for form in (stem, *(stem + ending for ending in ("s", "n", "es", "en"))):
                whole[form] = whole.get(form, _NONE) | {topic}
    return whole, beginnings
