"""What an agent can see already: what was said and shown before in its session."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from nexus.context import history
from nexus.ledgers import Ledgers
from nexus.ledgers.agents.history import Turn
from nexus.memory.recall.item import Item
from nexus.request import Request

_ID: Final = re.compile(r"\b[a-z]{3,}_[0-9A-HJKMNP-TV-Z]{26}\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """Messages and memories that are in the conversation."""

    event_ids: frozenset[str] = frozenset()
    item_ids: frozenset[str] = frozenset()

    def holds(self, item: Item) -> bool:
        """Whether something was said or shown before."""
        return item.id in self.item_ids or not self.event_ids.isdisjoint(
            filter(None, (item.id, item.source_event_id))
        )


NOTHING_KNOWN: Final = Known()


async def find_known(ledgers: Ledgers, request: Request, session_label: str) -> Known:
    """Find what the history of a session holds for a request, as its agent is going to see it.

    A message that was edited and sent again counts as known: its author took it back.
    """
    past = await history.load(ledgers, request, session_label)
    known = [turn.derive(_named) for turn in past.blocks]
    return Known(
        event_ids=past.taken_back.union(*(each.event_ids for each in known)),
        item_ids=frozenset[str]().union(*(each.item_ids for each in known)),
    )


def _named(turn: Turn) -> Known:
    return Known(
        event_ids=frozenset(message.event_id for message in turn.messages if message.event_id),
        item_ids=frozenset(found for message in turn.messages for found in _ID.findall(message.content)),
    )


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
