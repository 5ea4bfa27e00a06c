"""The lines that are put before a task, and the check whether its answer used them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from nexus.automations.context import Context
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import injections
from nexus.ledgers.runtime.injections import Sign
from nexus.memory.languages import DEFAULT, mixture
from nexus.memory.recall.item import Item
from nexus.memory.recall.words import function_words, split_words
from nexus.text import join_lines

# Anything that looks like a tag to a model could close the block it is in, or open another.
_TAG: Final = re.compile(r"<(?=[/!?]?[A-Za-z])")
_LINE: Final = re.compile(r"^- (.*) \([^()]*\b([a-z]+_[0-9A-Za-z_-]+)\)$")
_CONCLUSION: Final = "a conclusion"
_ORIGINS: Final = {
    "observation": _CONCLUSION,
    "mental_model": _CONCLUSION,
    "episode": "a conversation summed up",
    "inferred": "inferred",
    "observed": "observed",
}
# An answer that shares this many of a memory's own words used it, or this share of them if it has few.
_ENOUGH_WORDS: Final = 2
_ENOUGH_SHARE: Final = 0.5


def format_memories(items: Iterable[Item], speakers: Mapping[str, str]) -> str:
    """Format items as lines, without the tags around them."""
    return "\n".join(format_memory(item, item.speaker or speakers.get(item.id)) for item in items)


def format_memory(item: Item, speaker: str | None) -> str:
    """Format one item as a line: its text, date, source and id."""
    origin = _ORIGINS.get(item.kind) or _ORIGINS.get(item.source_type or "", "")
    # The date of a conclusion is that of its newest evidence.
    date = f"evidence from {item.at[:10]}" if origin == _CONCLUSION else item.at[:10]
    # People choose their own names, which must not close the brackets around them.
    who = re.sub(r"[(),\s<>]+", " ", speaker or "").strip()
    said = f"said by {who}" if who else ""
    notes = [date, f"{origin} from what was {said}" if origin and said else origin or said]
    notes.append(_square_brackets(item.note))
    if item.confidence < 1:
        notes.append(f"confidence {item.confidence:.1f}")
    return f"- {_one_line(item.text)} ({', '.join(filter(None, (*notes, item.id)))})"


def parse_memories(block: str) -> dict[str, str]:
    """Parse formatted lines into texts by id."""
    found = (_LINE.match(line) for line in block.splitlines())
    return {match[2]: match[1] for match in found if match}


class Feedback:
    """The automation that records, after an answer, which of the injected memories it used."""

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers

    async def __call__(self, context: Context) -> None:
        memories = parse_memories(str(context.request.enrichment.get("memories", "")))
        if context.result is None or not memories:
            return
        used = find_use(memories, task=context.request.event.content, answer=context.result.response.content)
        await self._ledgers.runtime.write(
            injections.mark_used, request_id=context.request.request_id, used=used
        )


def find_use(memories: dict[str, str], *, task: str, answer: str) -> dict[str, Sign | None]:
    """Find for each memory, by id, the sign that an answer used it: its id, or words only it contains.

    Comparing words is cheap and repeatable, and misses an answer that paraphrases a memory entirely.
    """
    in_task, in_answer = _find_words(task), _find_words(answer)
    signs: dict[str, Sign | None] = {}
    for id_, text in memories.items():
        own = _find_words(text) - in_task
        shared = own & in_answer
        says_words = shared and len(shared) >= min(_ENOUGH_WORDS, _ENOUGH_SHARE * len(own))
        signs[id_] = "id" if id_ in answer else "words" if says_words else None
    return signs


def _find_words(text: str) -> frozenset[str]:
    return split_words(text).distinct - function_words(DEFAULT, *mixture(text))


def _one_line(text: str) -> str:
    return join_lines(_TAG.sub("&lt;", text))


def _square_brackets(text: str) -> str:
    """Put a text on one line, without the round brackets that would end the note around it."""
    return _one_line(text).translate(str.maketrans("()", "[]"))
