"""What an agent can see already: what was said and shown before in its session."""

import re
from dataclasses import dataclass
from typing import Final

from nexus.context import history
from nexus.ledgers import Ledgers
from nexus.memory.recall import Item
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


async def in_session(ledgers: Ledgers, request: Request, session_label: str) -> Known:
    """What the history of a session holds for a request, as its agent is going to see it."""
    past = await history.load(ledgers, request, session_label)
    texts = [message.content for message in past.messages]
    return Known(
        event_ids=frozenset(message.event_id for message in past.messages if message.event_id),
        item_ids=frozenset(found for text in texts for found in _ID.findall(text)),
    )
