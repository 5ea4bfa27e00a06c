"""The language that most of a home's newest facts and messages are written in.

A question too short to tell its own language is taken to be in this one.
"""

import time
from collections import Counter
from collections.abc import Iterable
from weakref import WeakKeyDictionary

import apsw

from nexus.ledgers import Ledgers
from nexus.memory.languages import DEFAULT, detect
from nexus.memory.recall.statements import SQL

_READ_TEXTS = 100
# A home that holds less has yet to settle on a language: look again each time.
_SETTLED_TEXTS = 20
_KEPT_S = 600.0
_UNKNOWN = ""

_known: WeakKeyDictionary[Ledgers, tuple[float, str]] = WeakKeyDictionary()


async def home_language(ledgers: Ledgers) -> str:
    """The home's language, looked up every ten minutes; English while there is nothing to tell by."""
    until, language = _known.get(ledgers, (0.0, DEFAULT))
    if time.monotonic() < until:
        return language
    votes = await ledgers.memory.read(_votes, "newest_fact_texts")
    votes += await ledgers.events.read(_votes, "newest_event_texts")
    language = _most_common(votes)
    if votes.total() >= _SETTLED_TEXTS:
        _known[ledgers] = time.monotonic() + _KEPT_S, language
    return language


def _votes(connection: apsw.Connection, statement: str) -> Counter[str]:
    return votes(str(row[0]) for row in connection.execute(SQL[statement], (_READ_TEXTS,)))


def votes(texts: Iterable[str]) -> Counter[str]:
    """How many of the texts are in each language; those that don't tell aren't counted."""
    found = Counter(detect(text, _UNKNOWN) for text in texts)
    del found[_UNKNOWN]
    return found


def _most_common(votes: Counter[str]) -> str:
    return votes.most_common(1)[0][0] if votes else DEFAULT
