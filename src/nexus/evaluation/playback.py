"""Plays the sessions of a life through a real home: each message is received, answered and remembered.

The assistant's lines come from the life. The writer and consolidation work as the settings say, with the
evaluated model, and the clock shows the time of each message.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

import apsw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nexus import asgi, clock
from nexus.app import App
from nexus.config import Config, ProviderConfig
from nexus.errors import ModelFileError
from nexus.evaluation.life import Life, Row
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.runtime import executions, invocations
from nexus.ledgers.sql import load_statements, make
from nexus.memory import succession
from nexus.memory.embedding import MODELS, embed_new, find, model_for
from nexus.pipeline import Incoming
from nexus.runs import Totals
from nexus.skills.memory_socket import OWNER

PROVIDER: Final = "transcript"
MODEL: Final = f"{PROVIDER}/recorded"
_KEEP_ALIVE_S: Final = 75
_GRACE_S: Final = 1.0
_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@dataclass
class Transcript:
    """A model that says what a life's assistant said: a server on loopback, and the line that it says next.

    It speaks the OpenAI chat format, so the conversation passes through the same broker, client and
    bookkeeping as with any other model. Only what the memory does afterwards is evaluated.
    """

    url: str = ""
    reply: str = ""

    @property
    def provider(self) -> ProviderConfig:
        return ProviderConfig(kind="openai", base_url=self.url)

    async def answer(self, request: Request) -> Response:
        """Say the line."""
        body = await request.json()
        if body.get("stream"):
            return StreamingResponse(_events(self.reply), media_type="text/event-stream")
        message = {"role": "assistant", "content": self.reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({**_envelope("chat.completion"), "choices": [choice], "usage": _USAGE})


@asynccontextmanager
async def serve_transcript() -> AsyncGenerator[Transcript]:
    """Serve a transcript until the block ends."""
    made = Transcript()
    app = Starlette(routes=[Route("/v1/chat/completions", made.answer, methods=["POST"])])
    socket = asgi.open_socket("127.0.0.1", 0, backlog=16)
    server = asgi.build_server(app, keep_alive_s=_KEEP_ALIVE_S)
    await server.startup(sockets=[socket])
    made.url = f"http://127.0.0.1:{socket.getsockname()[1]}/v1"
    try:
        yield made
    finally:
        await asgi.stop(server, grace_s=_GRACE_S, cut_s=_GRACE_S)
        socket.close()


def _events(text: str) -> Iterator[str]:
    deltas: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", "content": text}, "finish_reason": None},
        {"delta": {}, "finish_reason": "stop"},
    ]
    for delta in deltas:
        yield _event({**_envelope("chat.completion.chunk"), "choices": [{"index": 0, **delta}]})
    yield _event({**_envelope("chat.completion.chunk"), "choices": [], "usage": _USAGE})
    yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "recorded", "object": kind, "created": 0, "model": "recorded"}


SQL: Final = load_statements(Path(__file__).with_name("queries.sql"))
CHANNEL: Final = "chat"
ASSISTANT: Final = "assistant"
ME: Final = "me"
# Said where the life has no answer of the assistant's.
_ACKNOWLEDGED: Final = "OK."
_POLL_S: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """One row that the memory holds after a session and did not hold before."""

    id: str
    kind: str
    """`fact`, `alias` or `person fact`."""
    text: str
    speaker: str | None = None
    source_type: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlayedSession:
    """What came of one session."""

    session: str
    turns: int
    ended_at: str
    """By the clock of the life."""
    duration_ms: float
    memories: list[Memory]
    runs: dict[str, int] = field(default_factory=dict[str, int])
    """How often the writer ended in which way."""
    refused: list[str] = field(default_factory=list[str])
    """What the gate refused, and what the writer failed with."""

    def to_json(self) -> Row:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Row) -> "PlayedSession":
        kept: Row = {**row, "memories": [Memory(**each) for each in row["memories"]]}
        return cls(**kept)


def prepare_config(life: Life, config: Config, model: str) -> Config:
    """Make the settings of a life's home: one model for the memory's work, an embedder of its language."""
    models = replace(
        config.models,
        manager=(model,),
        worker=config.models.worker or (model,),
        writer=(model,),
        consolidation=config.models.consolidation or (model,),
    )
    memory = config.memory
    with suppress(ModelFileError):
        name = model_for(life.language)
        if not memory.embedding_model_path:
            find(MODELS[name])
            memory = replace(memory, embedding_model=name)
    # A power cut loses nothing here that can't be played again.
    synchronous = replace(config.ledgers, synchronous="normal")
    engine = replace(config.engine, database="", synchronous="normal")
    # Nobody writes meanwhile.
    agents = replace(config.agents, quiet_ms=0)
    return replace(config, models=models, memory=memory, ledgers=synchronous, engine=engine, agents=agents)


def make_home(folder: Path) -> Home:
    """Return the home in a folder, completed where something is missing."""
    home = Home(folder)
    home.create()
    return home


async def play(
    life: Life, session: str, home: Home, config: Config, known: Sequence[PlayedSession]
) -> PlayedSession:
    """Play one session. What was played of it before, and then interrupted, isn't played twice."""
    rows = life.sessions[session]
    # Where a slow model took longer than the pause between two sessions, or an interruption cut one short,
    # the clock doesn't go back.
    latest = [clock.parse(played.ended_at) for played in known] + await _moments(home, config)
    began = max([clock.parse(rows[0]["time"]), *latest])
    started, turns = time.monotonic(), 0
    with clock.starting_at(began) as reach:
        async with _open_app(home, config) as (app, recorded):
            await _introduce(app, life)
            for message, reply in exchanges(rows):
                reach(clock.parse(message["time"]))
                recorded.reply = reply
                receipt = await app.accept(_incoming(life, session, message))
                await receipt.run.result()
                await wait_until_settled(app)
                turns += 1
            await _conclude(app)
            seen = {memory.id for played in known for memory in played.memories}
            memories = [memory for memory in await load_memories(app.ledgers) if memory.id not in seen]
            # What an interrupted attempt at this session left counts as well.
            counted = sum(sum(each.runs.values()) for each in known)
            runs, refused = _summarize_runs((await _read(app.ledgers, "runtime", "invocations"))[counted:])
        ended_at = clock.timestamp(clock.now())
    duration_ms = (time.monotonic() - started) * 1000
    return PlayedSession(
        session=session,
        turns=turns,
        ended_at=ended_at,
        duration_ms=duration_ms,
        memories=memories,
        runs=runs,
        refused=refused,
    )


def exchanges(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Return each message of a person with what the assistant said to it."""
    said: list[tuple[Row, list[str]]] = []
    for row in rows:
        if row["speaker"] != ASSISTANT:
            said.append((row, []))
        elif said:
            said[-1][1].append(str(row["text"]))
    return ((row, "\n".join(replies) or _ACKNOWLEDGED) for row, replies in said)


async def wait_until_settled(app: App) -> None:
    """Wait until no automation and no agent has work left."""
    while True:
        await app.automations.runner.wait_until_settled()
        await app.automations.queue.wait_until_settled()
        runtime = app.ledgers.runtime
        if not await runtime.read(executions.list_unfinished) and not await runtime.read(
            invocations.list_unfinished
        ):
            return
        await asyncio.sleep(_POLL_S)


async def load_memories(opened: Ledgers) -> list[Memory]:
    """Return everything that the memory holds, but what it concluded itself."""
    named_ = dict(cast("list[tuple[str, str]]", await _read(opened, "identity", "names")))
    sender = dict(cast("list[tuple[str, str]]", await _read(opened, "events", "senders")))
    found: list[Memory] = []
    for id_, fact, source, target, kind, event_id, speaker in await _read(opened, "memory", "facts"):
        about = [named_[entity] for entity in (source, target) if entity in named_]
        absent = [name for name in about if name.casefold() not in fact.casefold()]
        text = f"{fact} ({', '.join(absent)})" if absent else fact
        found.append(
            Memory(id=id_, kind="fact", text=text, speaker=speaker or sender.get(event_id), source_type=kind)
        )
    for what in ("alias", "person fact"):
        for id_, text, kind, event_id in await _read(opened, "identity", _TABLES[what]):
            found.append(Memory(id=id_, kind=what, text=text, speaker=sender.get(event_id), source_type=kind))
    return found


_TABLES: Final = {"alias": "aliases", "person fact": "person_facts"}


async def load_successions(opened: Ledgers) -> dict[str, str]:
    """Return which fact replaced which."""
    return dict(cast("list[tuple[str, str]]", await _read(opened, "memory", "successions")))


async def load_spending(opened: Ledgers) -> dict[str, Totals]:
    """Tokens and money by role, without the transcript's."""
    rows = await _read(opened, "runtime", "usage")
    return {row[0]: make(Totals, row[1:]) for row in rows}


async def _read(opened: Ledgers, ledger: str, query: str) -> list[tuple[Any, ...]]:
    def rows(connection: apsw.Connection) -> list[tuple[Any, ...]]:
        return cast("list[tuple[Any, ...]]", connection.execute(SQL[query]).fetchall())

    return await opened[ledger].read(rows)


@asynccontextmanager
async def _open_app(home: Home, config: Config) -> AsyncGenerator[tuple[App, Transcript]]:
    """Open the home with an agent that says what the transcript says."""
    async with serve_transcript() as recorded:
        models = replace(config.models, manager=(MODEL,))
        providers = {**config.providers, PROVIDER: recorded.provider}
        async with App(home, replace(config, models=models, providers=providers)) as app:
            # What an interruption cut short goes on first.
            await wait_until_settled(app)
            yield app, recorded


def _incoming(life: Life, session: str, message: Row) -> Incoming:
    speaker = str(message["speaker"])
    is_owner = speaker == ME
    return Incoming(
        channel=CHANNEL,
        content=str(message["text"]),
        sender=OWNER if is_owner else speaker,
        thread=session,
        session_label=session,
        display_name=life.owner if is_owner else life.names.get(speaker, speaker),
        external_id=str(message["key"]),
        is_owner=is_owner,
    )


async def _introduce(app: App, life: Life) -> None:
    """Record the owner by name, and everybody who speaks, with the right to."""
    speakers = dict.fromkeys(str(row["speaker"]) for row in life.messages)

    def introduce(connection: apsw.Connection) -> None:
        me = Seen(channel=CHANNEL, identifier=OWNER, display_name=life.owner, is_owner=True)
        senders.resolve(connection, me)
        for speaker in speakers:
            if speaker not in {ME, ASSISTANT}:
                name = life.names.get(speaker, speaker)
                seen = Seen(channel=CHANNEL, identifier=speaker, display_name=name)
                entity_id = senders.resolve(connection, seen).entity_id
                grants.grant(connection, entity_id, Granted(sessions=("*",)), by="evaluation")

    await app.ledgers.identity.write(introduce)


async def _conclude(app: App) -> None:
    """Do what a home does over the next hour: consolidate, embed, and find what replaced what."""
    if app.config.memory.consolidation:
        await (await app.conclusions.consolidate()).result()
        await wait_until_settled(app)
    with suppress(ModelFileError):
        vectors = await app.embedding.vectors()
        await embed_new(app.ledgers, vectors)
        await succession.derive(app.ledgers, vectors)


async def _moments(home: Home, config: Config) -> list[datetime]:
    """Return when things last happened in a home."""
    async with Ledgers(home, config.ledgers) as opened:
        found = await _read(opened, "runtime", "latest")
    return [clock.parse(moment) for moment in found[0] if moment]


def _summarize_runs(runs: Sequence[tuple[Any, ...]]) -> tuple[dict[str, int], list[str]]:
    counts: dict[str, int] = {}
    refused: list[str] = []
    for status, error, result in runs:
        counts[status] = counts.get(status, 0) + 1
        refused += [str(error)] if error else []
        returned: Row = (json.loads(result) if result else None) or {}
        enriched: Row = returned.get("log") or returned.get("enrich") or {}
        refused += [str(each) for each in enriched.get("refused", ())]
    return counts, refused
