"""The embeddings ledger: one model's vectors, kept as float16 blobs that anybody can read."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import apsw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from nexus.config import MemoryConfig
from nexus.errors import ConfigError, ModelFileError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.database import Database
from nexus.ledgers.sql import load_statements
from nexus.memory.embedding.catalogue import DEFAULT_MODEL, MODELS, MULTILINGUAL_MODEL, Model
from nexus.memory.embedding.embedder import Embedder, load
from nexus.memory.embedding.files import ModelFiles, find, locate
from nexus.memory.embedding.index import Mirror

Floats = NDArray[np.float32]

_ROWS_A_DELETE = 5_000
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
    """Format what is embedded of an event: who says it, then what."""
    return f"{sender}: {content[:_TEXT_CHARACTERS]}" if sender else content[:_TEXT_CHARACTERS]


async def sources(ledgers: Ledgers, kind: Kind, rows: Sequence[Row]) -> list[Source]:
    """Make what is to be embedded of some rows; a row without any text gives nothing."""
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
    """Find which of these are still in their ledger."""

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


@dataclass(frozen=True, slots=True)
class Position:
    """How far embedding has come with one kind of thing."""

    target_type: str
    value: str


class Vectors:
    """One model's vectors: kept in the ledger, searched in a mirror that follows it."""

    def __init__(self, database: Database, embedder: Embedder, mirror: Mirror | None = None) -> None:
        self.embedder = embedder
        self.mirror = Mirror(database, embedder.model_id, embedder.dimensions) if mirror is None else mirror
        self._database = database

    async def put(
        self, sources: Sequence[Source], vectors: Iterable[ArrayLike | None], reached: Position | None = None
    ) -> None:
        """Keep the vectors, and how far that brings us; one that a target had is replaced.

        Of a text that the model failed on (None) an empty one is kept, so that it is counted and tried again.
        """
        rows = [
            (source.target_type, source.target_id, self.embedder.model_id, *_encode(source, vector))
            for source, vector in zip(sources, vectors, strict=True)
        ]
        await self._database.write(self._write, rows, reached)

    async def drop(self, target_type: str, ids: Iterable[str]) -> None:
        """Remove the vectors of some things, of every model."""
        rows = [(target_type, id_) for id_ in ids]
        await self._database.write(sql.run_each, SQL["drop"], rows)

    async def missing(self, sources: Sequence[Source]) -> list[Source]:
        """Find those whose text has no vector of this model yet."""

        def work(connection: apsw.Connection) -> list[Source]:
            key = self.embedder.model_id
            return [
                source
                for source in sources
                if connection.execute(SQL["hash_of"], (source.target_type, source.target_id, key)).get
                != source.hash
            ]

        return await self._database.read(work)

    async def of(self, target_type: str, ids: Sequence[str]) -> dict[str, Floats]:
        """Load the vectors of some things, as far as they have one."""
        given = (target_type, self.embedder.model_id, json.dumps(list(ids)))
        rows = await self._database.read(sql.rows, SQL["vectors_of_targets"], given)
        found = cast("list[tuple[str, bytes]]", rows)
        return {id_: np.frombuffer(blob, "<f2").astype(np.float32) for id_, blob in found}

    async def cosines(self, target_type: str, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Compare a text in meaning with some things, as far as they have a vector."""
        found = await self.of(target_type, ids)
        if not found:
            return {}
        [made] = await asyncio.to_thread(self.embedder.embed, [text])
        return {id_: float(vector @ made) for id_, vector in found.items()}

    async def position(self, target_type: str) -> str | None:
        """Load how far this model has come with a kind of thing."""
        key = (self.embedder.model_id, target_type)
        found = await self._database.read(sql.value, SQL["position"], key)
        return None if found is None else str(found)

    async def serve(self) -> None:
        """Let searches use this model from now on, and remove what other models made."""
        if await serving_model(self._database) != self.embedder.model_id:
            await self._database.write(self._serve)
        mine = (self.embedder.model_id,)
        others = await self._database.read(sql.rows, SQL["other_models"], mine)
        for (other,) in cast("list[tuple[str]]", others):
            while await self._database.write(_drop_some, other):
                pass

    def _write(
        self,
        connection: apsw.Connection,
        rows: list[tuple[str, str, str, bytes, str]],
        reached: Position | None,
    ) -> None:
        model_id = self.embedder.model_id
        connection.execute(SQL["register_model"], (model_id, self.embedder.dimensions))
        connection.execute(SQL["serve_first_model"], (model_id,))
        connection.executemany(SQL["put"], rows)
        if reached is not None:
            connection.execute(SQL["set_position"], (model_id, reached.target_type, reached.value))

    def _serve(self, connection: apsw.Connection) -> None:
        model_id = self.embedder.model_id
        connection.execute(SQL["register_model"], (model_id, self.embedder.dimensions))
        connection.execute(SQL["serve_no_model"], (model_id,))
        connection.execute(SQL["serve_model"], (model_id,))


def _encode(source: Source, vector: ArrayLike | None) -> tuple[bytes, str]:
    return (b"", "") if vector is None else (np.asarray(vector, "<f2").tobytes(), source.hash)


async def serving_model(database: Database) -> str | None:
    """Load the id of the model that searches use."""
    found = await database.read_now(sql.value, SQL["serving_model"])
    return None if found is None else str(found)


def _drop_some(connection: apsw.Connection, model_id: str) -> bool:
    """Remove some vectors of a model, and at last the model; True while there may be more."""
    before = connection.total_changes()
    connection.execute(SQL["drop_some_of_model"], (model_id, _ROWS_A_DELETE))
    if connection.total_changes() > before:
        return True
    connection.execute(SQL["drop_progress"], (model_id,))
    connection.execute(SQL["drop_model"], (model_id,))
    return False


def choose_model(settings: MemoryConfig) -> Model:
    """Choose the model that the settings name."""
    model = MODELS.get(settings.embedding_model)
    if model is None or model.role != "embedder":
        known = ", ".join(name for name, each in MODELS.items() if each.role == "embedder")
        raise ConfigError(f"Unknown embedding model `{settings.embedding_model}`", hint=f"Known: {known}.")
    return model


def choose_model_id(settings: MemoryConfig) -> str:
    """Choose the id of the model's build on this machine, or of its preferred build if there is none."""
    model = choose_model(settings)
    found = locate(model, path=_path(settings))
    return model.id_of(model.builds[0]) if found is None else found.id


def find_installed(settings: MemoryConfig) -> ModelFiles:
    """Find the files of the chosen model; ModelFileError if they aren't on this machine."""
    return find(choose_model(settings), path=_path(settings))


def model_for(language: str) -> str:
    """Name the model that fits a language best, given its tag (`en`, `de_DE.UTF-8`, `pt-BR`)."""
    primary = re.split(r"[-_.@]", language.strip().lower(), maxsplit=1)[0]
    return DEFAULT_MODEL if primary in {"", "c", "posix", "en", "eng"} else MULTILINGUAL_MODEL


def make_opener(settings: MemoryConfig) -> Callable[[str | None], Embedder]:
    """Opens the chosen model, or with an id the one that made vectors before."""

    def open_model(model_id: str | None) -> Embedder:
        if model_id is None:
            return load(find_installed(settings))
        for model in MODELS.values():
            for build in model.builds:
                if model.id_of(build) == model_id:
                    return load(find(replace(model, builds=(build,))))
        raise ModelFileError(f"The model {model_id} is not known", hint=f"Known: {', '.join(MODELS)}.")

    return open_model


def _path(settings: MemoryConfig) -> Path | None:
    return Path(settings.embedding_model_path).expanduser() if settings.embedding_model_path else None


async def open_vectors(ledgers: Ledgers, settings: MemoryConfig) -> Vectors:
    """Open the vectors of a home and the chosen model, in a process that serves nothing."""
    return Vectors(ledgers.embeddings, await asyncio.to_thread(make_opener(settings), None))
