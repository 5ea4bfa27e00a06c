"""The lines that are put before a task, and whether an answer used them.

Use is found by comparing words, without a model: an answer names the id, or says what only the memory could
have told it. What was told apart from the task's own words counts; an answer that says a memory in entirely
other words is not noticed.
"""

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

# What looks like a tag to a model could close the block that it stands in, or open another.
_TAG = re.compile(r"<(?=[/!?]?[A-Za-z])")
_LINE = re.compile(r"^- (.*) \([^()]*\b([a-z]+_[0-9A-Za-z_-]+)\)$")
_CONCLUSION = "a conclusion"
_LEARNED = {"inferred": "inferred", "observed": "observed"}


def format_memory(item: Item, speaker: str | None) -> str:
    """Format one memory as it is put before a task."""
    text = _one_line(item.text)
    return f"- {text} ({', '.join(filter(None, (_date(item), _source(item, speaker), item.id)))})"


def format_memories(items: Iterable[Item], speakers: Mapping[str, str]) -> str:
    """Format the lines, without the tags around them."""
    return "\n".join(format_memory(item, item.speaker or speakers.get(item.id)) for item in items)


def parse_memories(block: str) -> dict[str, str]:
    """Parse the texts of a block by the ids of their items."""
    found = (_LINE.match(each) for each in block.splitlines())
    return {match[2]: match[1] for match in found if match}


def _date(item: Item) -> str:
    """When it was said; of a conclusion, when the newest of what it rests on was said."""
    return f"evidence from {item.at[:10]}" if _learned(item) == _CONCLUSION else item.at[:10]


def _source(item: Item, speaker: str | None) -> str:
    # A name is somebody's own choice, and must not end the brackets that it stands in.
    who = re.sub(r"[(),\s<>]+", " ", speaker or "").strip()
    said = f"said by {who}" if who else ""
    learned = _learned(item)
    notes = [f"{learned} from what was {said}" if learned and said else learned or said]
    if learned == _CONCLUSION and item.stale_since:
        since, newer = item.stale_since[:10], item.outdated_by
        notes.append(
            f"out of date since {since}: {_within_brackets(newer.text)}"
            if newer
            else f"out of date: something newer is known since {since}"
        )
    elif item.replaced_by:
        notes.append(_within_brackets(item.replaced_by.note))
    elif item.stale_since:
        notes.append(f"no longer true since {item.stale_since[:10]}")
    notes += [f"confidence {item.confidence:.1f}"] if item.confidence < 1 else []
    return ", ".join(filter(None, notes))


def _one_line(text: str) -> str:
    return " ".join(_TAG.sub("&lt;", text).split())


def _within_brackets(text: str) -> str:
    """What holds instead, where round brackets would end the note that it stands in."""
    return _one_line(text).translate(str.maketrans("()", "[]"))


def _learned(item: Item) -> str:
    if item.kind in ("observation", "mental_model"):
        return _CONCLUSION
    if item.kind == "episode":
        return "a conversation summed up"
    return _LEARNED.get(item.source_type or "", "")


# So many of the words that a memory has beyond the task, or this share of them where it has few.
_WORDS: Final = 2
_SHARE: Final = 0.5


class Use:
    """Records, after an answer, which injected memories it used."""

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers

    async def __call__(self, context: Context) -> None:
        told = parse_memories(str(context.request.enrichment.get("memories", "")))
        if context.result is None or not told:
            return
        used = find_signs(told, task=context.request.event.content, answer=context.result.response.content)
        await self._ledgers.runtime.write(
            injections.mark_used, request_id=context.request.request_id, used=used
        )


def find_signs(told: dict[str, str], *, task: str, answer: str) -> dict[str, Sign | None]:
    """Find for each memory, by its id, what shows that the answer used it."""
    said, known = _find_words(answer), _find_words(task)
    return {id_: _find_sign(id_, _find_words(text) - known, answer, said) for id_, text in told.items()}


def _find_sign(id_: str, own: frozenset[str], answer: str, said: frozenset[str]) -> Sign | None:
    if id_ in answer:
        return "id"
    shared = own & said
    return "words" if shared and len(shared) >= min(_WORDS, _SHARE * len(own)) else None


def _find_words(text: str) -> frozenset[str]:
    return split_words(text).distinct - function_words(DEFAULT, *mixture(text))
