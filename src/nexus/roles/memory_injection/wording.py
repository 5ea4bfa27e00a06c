"""How a memory is told: its own text, when it is from, who said it, and its id, on one line."""

import re
from collections.abc import Iterable, Mapping

from nexus.memory.recall import Item

# What looks like a tag to a model could close the block that it stands in, or open another.
_TAG = re.compile(r"<(?=[/!?]?[A-Za-z])")
_LINE = re.compile(r"^- (.*) \([^()]*\b([a-z]+_[0-9A-Za-z_-]+)\)$")
_CONCLUSION = "a conclusion"
_LEARNED = {"inferred": "inferred", "observed": "observed"}


def line(item: Item, speaker: str | None) -> str:
    """One memory as it is put before a task."""
    text = " ".join(_TAG.sub("&lt;", item.text).split())
    return f"- {text} ({', '.join(filter(None, (_date(item), _source(item, speaker), item.id)))})"


def block(items: Iterable[Item], speakers: Mapping[str, str]) -> str:
    """The lines, without the tags around them."""
    return "\n".join(line(item, item.speaker or speakers.get(item.id)) for item in items)


def told(block: str) -> dict[str, str]:
    """The texts of a block by the ids of their items."""
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
        notes.append(f"out of date: something newer is known since {item.stale_since[:10]}")
    elif item.stale_since:
        notes.append(f"no longer true since {item.stale_since[:10]}")
    notes += [f"confidence {item.confidence:.1f}"] if item.confidence < 1 else []
    return ", ".join(filter(None, notes))


def _learned(item: Item) -> str:
    if item.kind in ("observation", "mental_model"):
        return _CONCLUSION
    if item.kind == "episode":
        return "a conversation summed up"
    return _LEARNED.get(item.source_type or "", "")
