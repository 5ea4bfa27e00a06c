"""What is embedded: the kinds of things that have a vector, and the text that each is embedded by."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import apsw

from nexus.ledgers import Ledgers
from nexus.ledgers.database import Database
from nexus.ledgers.sql import load_statements

SQL: Final = load_statements(Path(__file__).with_name("queries.sql"))

# A vector holds what a text is about; what lies past this is for the keyword arm.
_TEXT_CHARACTERS: Final = 1200

Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Something that has a text to embed."""

    target_type: str
    target_id: str
    text: str

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of thing, and how its ledger is asked about it.

    The rows of a log are never changed, so a seq tells how far embedding has come. Elsewhere the time of
    a row's last change does.
    """

    name: str
    ledger: str
    log: bool = False

    def database(self, ledgers: Ledgers) -> Database:
        return ledgers[self.ledger]

    def sql(self, what: str) -> str:
        return SQL[f"{self.name}_{what}"]


KINDS: Final = (
    # What is written most deliberately comes first: a long log of events must not hold it up.
    Kind(name="entity", ledger="identity"),
    Kind(name="fact", ledger="memory", log=True),
    Kind(name="episode", ledger="memory"),
    Kind(name="observation", ledger="memory"),
    Kind(name="mental_model", ledger="memory"),
    Kind(name="event", ledger="events", log=True),
)


def event_text(sender: str | None, content: str) -> str:
    """What is embedded of an event: who says it, then what."""
    return f"{sender}: {content[:_TEXT_CHARACTERS]}" if sender else content[:_TEXT_CHARACTERS]


async def sources(ledgers: Ledgers, kind: Kind, rows: Sequence[Row]) -> list[Source]:
    """What is to be embedded of some rows; a row without any text gives nothing."""
    if kind.name == "event":
        texts = [event_text(row[2], row[3]) for row in rows]
    elif kind.name == "entity":
        texts = [". ".join(part for part in row[2:5] if part) for row in rows]
    elif kind.name == "episode":
        texts = await _episode_texts(ledgers, rows)
    else:
        texts = [str(row[2]) for row in rows]
    made = [
        Source(target_type=kind.name, target_id=row[1], text=text[:_TEXT_CHARACTERS])
        for row, text in zip(rows, texts, strict=True)
    ]
    return [source for source in made if source.text.strip()]


async def present(ledgers: Ledgers, kind: Kind, ids: Sequence[str]) -> set[str]:
    """Which of these are still in their ledger."""

    def work(connection: apsw.Connection) -> set[str]:
        return {str(row[0]) for row in connection.execute(kind.sql("present"), (json.dumps(list(ids)),))}

    return await kind.database(ledgers).read(work)


async def _episode_texts(ledgers: Ledgers, rows: Sequence[Row]) -> list[str]:
    """Title and summary, then what was said, as far as there is room."""
    ids = [cast("list[str]", json.loads(row[4])) for row in rows]
    wanted = json.dumps([id_ for some in ids for id_ in some])

    def work(connection: apsw.Connection) -> dict[str, str]:
        found = connection.execute(SQL["contents_of_events"], (wanted,))
        return {str(row[0]): event_text(cast("str | None", row[1]), str(row[2])) for row in found}

    said = await ledgers.events.read(work)
    return [
        "\n".join([*(part for part in row[2:4] if part), *(said[id_] for id_ in some if id_ in said)])
        for row, some in zip(rows, ids, strict=True)
    ]
