"""What a small model as the memory writer does for replacements: its claims against the judge alone.

    python bench/writer_links.py URL [FOLDER…] [--model NAME] [--pairs N] [--out FOLDER] [--verbose]

URL is that of a server that speaks the OpenAI chat format; with a GGUF file instead, the file is served with
llama.cpp (`pip install xllamacpp`). Each FOLDER is a life (bench/lives/README.md). Of each, so many
replacements and as many look-alikes are taken evenly, and the messages that state them are told to a new home
at their times; the writer in structured mode is the model. Without a FOLDER, the examples of this file are
told, in one conversation.

Then the questions about what changed are asked of recall three times: with the facts and the claims of the
model, with its facts alone, and with the life's own facts of the same messages. A stored fact stands for the
nearest of the facts that its message states, so a link is right if the life links the two, directly or by a
chain. With --out, homes are kept there, and a run that was interrupted goes on.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import life_data
from local_model import served
from report import progress
from setting import embedder_for

from nexus import clock
from nexus.app import App
from nexus.config import Config, MemoryConfig, ProviderConfig
from nexus.evaluation.life import Life, Row, read, spread
from nexus.evaluation.playback import PlayedSession, make_home, play, prepare_config
from nexus.home import Home
from nexus.ledgers import Ledgers, sql
from nexus.memory import succession
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.facts import CLAIM
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import installed_reranker

_CONTEXT_TOKENS = 8_192
_PATIENCE_MS = 1_800_000
_DEADLINE_MS = 60_000
_DEEPEST = 10
# Below this cosine a stored fact says something else than the life's facts of its message.
_SAME = 0.5

_EXAMPLES = (
    (
        "Clara lives in Aarhus with her son Leo.",
        "Clara and Leo moved from Aarhus: she lives in Rotterdam now, Havenstraat 18.",
        "where does Clara live?",
    ),
    (
        "Jonas works at Kestrel.",
        "Jonas started at Tidewater, he no longer works at Kestrel.",
        "where does Jonas work?",
    ),
    (
        "The Tidal Room opens on 14 June.",
        "The Tidal Room opens on 28 June now, because of the strike.",
        "when does the Tidal Room open?",
    ),
    ("Tyler works at Google.", "Tyler works at Anthropic now.", "where does Tyler work?"),
    (
        "The deadline of Project Heron is March 15.",
        "The deadline of Project Heron moved to April 2.",
        "when is the deadline of Project Heron?",
    ),
)  # fmt: skip


# What each of them is about.
_ABOUT = (
    ("Clara", "person"),
    ("Jonas", "person"),
    ("Tidal Room", "place"),
    ("Tyler", "person"),
    ("Project Heron", "project"),
)


@dataclass(slots=True)
class Counts:
    """What came of the questions and links of one form."""

    asked: int = 0
    current_first: int = 0
    outdated_before: int = 0
    there: int = 0
    made: int = 0
    right: int = 0
    look_alikes: int = 0
    claims: int = 0
    right_claims: int = 0
    ruled_out: int = 0
    stored: int = 0
    notes: list[str] = field(default_factory=list[str])

    def add(self, other: "Counts") -> None:
        """Add what came of another life."""
        for name in self.__slots__:
            if name != "notes":
                setattr(self, name, getattr(self, name) + getattr(other, name))


def examples() -> Life:
    """The examples of this file as a life: all that was, then all that changed, within one conversation."""
    facts: list[Row] = []
    messages: list[Row] = []
    questions: list[Row] = []
    for turn, texts in enumerate(zip(*((old, new) for old, new, _ in _EXAMPLES), strict=True)):
        for place, text in enumerate(texts):
            minute = turn * len(_EXAMPLES) + place
            key, at = f"{'old' if turn == 0 else 'new'}{place}", f"2026-05-07T09:{minute:02}:00Z"
            messages.append({"key": key, "session": 1, "time": at, "speaker": "me", "text": text})
            fact: Row = {"key": key, "text": text, "about": [_ABOUT[place][0]], "as_of": at, "message": key}
            facts.append(fact | ({"replaced_by": f"new{place}"} if turn == 0 else {}))
    for place, (_, _, question) in enumerate(_EXAMPLES):
        questions.append(
            {
                "id": f"q{place}",
                "text": question,
                "evidence": [f"new{place}"],
                "wrong": [f"old{place}"],
                "kind": "update",
            }
        )
    persona = {"owner": "Ada Winter", "language": "en", "now": "2026-05-08T09:00:00Z"}
    entities: list[Row] = [{"key": name, "name": name, "type": type_} for name, type_ in _ABOUT]
    return Life("examples", persona, entities, facts, messages, questions, [], [])


def part(life: Life, pairs: int) -> Life:
    """So many replacements and as many look-alikes, with the messages that state them, and what is asked."""
    said = {row["key"]: row for row in life.messages}
    of = {
        row["key"]: row["message"]
        for row in life.facts
        if said.get(row.get("message", ""), {}).get("speaker") == "me"
    }
    replaced = [
        (row["key"], row["replaced_by"])
        for row in life.facts
        if row["key"] in of and of.get(row.get("replaced_by", ""), of[row["key"]]) != of[row["key"]]
    ]
    alike = [
        (other, row["key"])
        for row in life.facts
        for other in row.get("distinct_from", ())
        if row["key"] in of and of.get(other, of[row["key"]]) != of[row["key"]]
    ]
    chosen = {
        key
        for pair in (*spread(cast("Any", replaced), pairs), *spread(cast("Any", alike), pairs))
        for key in pair
    }
    kept = {of[key] for key in chosen}
    # What the assistant said right before or after belongs to a message.
    for one, two in zip(life.messages, life.messages[1:], strict=False):
        if one["session"] == two["session"]:
            for own, other in ((one, two), (two, one)):
                if own["speaker"] == "assistant" and other["key"] in kept and other["speaker"] == "me":
                    kept |= {own["key"]}
    facts = [row for row in life.facts if row.get("message") in kept]
    keys = {row["key"] for row in facts}
    questions = [
        row
        for row in life.questions
        if row["kind"] != "past" and row.get("wrong") and row["evidence"]
        and keys.issuperset(row["evidence"]) and keys & set(row["wrong"])
    ]  # fmt: skip
    messages = [row for row in life.messages if row["key"] in kept]
    return replace(life, facts=facts, messages=messages, questions=questions, tasks=[], writer=[])


async def tell(life: Life, home: Home, config: Config, folder: Path) -> None:
    """Play the sessions that were not played yet."""
    file = folder / "sessions.jsonl"
    played = (
        [PlayedSession.from_json(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
        if file.exists()
        else []
    )
    if not played:
        async with App(home, config) as app:
            # The writer gets all the time it needs, and nothing else to do.
            change = (
                "UPDATE automations SET timeout_ms = ?, self_improvement = 0 WHERE name = 'memory-writer'"
            )
            await app.ledgers.runtime.write(lambda c: c.execute(change, (_PATIENCE_MS,)) and None)
    for session in [each for each in life.sessions if each not in {done.session for done in played}]:
        done = await play(life, session, home, config, played)
        played.append(done)
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(done.to_json()) + "\n")
        progress(
            f"{life.name}, session {session}: {done.turns} messages, {len(done.memories)} memories,"
            f" {done.duration_ms / 1000:.0f} s, {done.runs}"
        )


async def measure(life: Life, home: Home, config: Config) -> dict[str, Counts]:
    """Ask with the claims of the model, without them, and with the life's own facts."""
    found: dict[str, Counts] = {}
    async with _recall(home, life, config) as (recall, ledgers, vectors):
        keys = await _keys(life, ledgers)
        for form in ("its claims", "its facts alone"):
            if form == "its facts alone":
                await ledgers.memory.write(
                    lambda c: c.execute("DELETE FROM causal_links WHERE relation = 'replaced'") and None
                )
            claims = [
                (str(old), str(new))
                for old, new, confidence in await ledgers.memory.read(sql.rows, _CLAIMS)
                if confidence == CLAIM
            ]
            await succession.rebuild(ledgers, vectors)
            links = dict(cast("list[tuple[str, str]]", await ledgers.memory.read(sql.rows, _LINKS)))
            counts = await _score(life, recall, keys, links)
            counts.claims = len(claims)
            counts.right_claims = sum(_is_right(life, keys, old, new) for old, new in claims)
            counts.ruled_out = sum(links.get(old) != new for old, new in claims)
            facts = dict(cast("list[tuple[str, str]]", await ledgers.memory.read(sql.rows, _TEXTS)))
            for kind, pairs in (("link", links.items()), ("claim", claims)):
                for old, new in pairs:
                    mark = "right" if _is_right(life, keys, old, new) else "wrong"
                    counts.notes.append(f"{kind} {mark}: {facts[old]} → {facts[new]}")
            found[form] = counts
    with tempfile.TemporaryDirectory() as scratch:
        written = make_home(Path(scratch) / "home")
        async with Ledgers(written, config.ledgers) as opened:
            filled = await life_data.fill(opened, life, "facts")
        async with _recall(written, life, config) as (recall, ledgers, vectors):
            await succession.derive(ledgers, vectors)
            links = dict(cast("list[tuple[str, str]]", await ledgers.memory.read(sql.rows, _LINKS)))
            found["the life's facts"] = await _score(life, recall, filled.keys_of_fact, links)
    return found


_CLAIMS = "SELECT cause_fact_id, effect_fact_id, confidence FROM causal_links WHERE relation = 'replaced'"
_LINKS = "SELECT old_fact_id, new_fact_id FROM fact_successions"
_TEXTS = "SELECT id, fact FROM facts"


@asynccontextmanager
async def _recall(home: Home, life: Life, config: Config) -> AsyncGenerator[tuple[Recall, Ledgers, Vectors]]:
    async with Ledgers(home, config.ledgers) as opened:
        vectors = Vectors(opened.embeddings, embedder_for(life.language))
        await embed_new(opened, vectors)
        await vectors.mirror.refresh()
        now = clock.parse(life.persona["now"])
        yield Recall(opened, vectors, now=lambda: now, reranker=installed_reranker()), opened, vectors


async def _keys(life: Life, ledgers: Ledgers) -> dict[str, str]:
    """For each stored fact the nearest of those that its message states."""
    events = dict(cast("list[tuple[str, str]]", await ledgers.events.read(sql.rows, _EVENTS)))
    stated: dict[str, list[Row]] = {}
    for row in life.facts:
        stated.setdefault(row["message"], []).append(row)
    rows = await ledgers.memory.read(sql.rows, "SELECT id, fact, source_event_id FROM facts")
    embedder = embedder_for(life.language)
    keys: dict[str, str] = {}
    for id_, text, event in rows:
        own = stated.get(events.get(event or "", ""), [])
        if own:
            cosines = embedder.embed([row["text"] for row in own]) @ embedder.embed([str(text)])[0]
            if cosines.max() >= _SAME:
                keys[str(id_)] = own[int(cosines.argmax())]["key"]
    return keys


_EVENTS = "SELECT id, external_id FROM events WHERE direction = 'inbound'"


async def _score(life: Life, recall: Recall, keys: Mapping[str, str], links: Mapping[str, str]) -> Counts:
    counts = Counts(stored=len(set(keys.values())))
    for question in life.questions:
        query = Query(
            text=question["text"],
            kinds=frozenset({"fact"}),
            max_results=_DEEPEST,
            deadline_ms=_DEADLINE_MS,
        )
        order = [keys.get(result.item.id) for result in (await recall.find(query)).results]
        current = _place(order, question["evidence"])
        outdated = _place(order, question["wrong"])
        counts.asked += 1
        counts.current_first += current == 0
        counts.outdated_before += outdated < min(current, _DEEPEST)
    alike = {(other, row["key"]) for row in life.facts for other in row.get("distinct_from", ())}
    there = set(keys.values())
    counts.there = sum(bool(_later(life, key) & there) for key in there)
    counts.made = len(links)
    counts.right = sum(_is_right(life, keys, old, new) for old, new in links.items())
    counts.look_alikes = sum((keys.get(old), keys.get(new)) in alike for old, new in links.items())
    return counts


def _place(order: Sequence[str | None], wanted: Sequence[str]) -> int:
    return next((place for place, key in enumerate(order) if key in wanted), _DEEPEST)


def _later(life: Life, key: str) -> set[str]:
    """What replaced a fact, and what replaced that."""
    by = {row["key"]: row.get("replaced_by") for row in life.facts}
    found: set[str] = set()
    while (following := by.get(key)) is not None:
        found.add(following)
        key = following
    return found


def _is_right(life: Life, keys: Mapping[str, str], old: str, new: str) -> bool:
    return old in keys and new in keys and keys[new] in _later(life, keys[old])


def show(name: str, found: Mapping[str, Counts]) -> None:
    """Print one life."""
    for form, counts in found.items():
        claims = f"; claims {counts.right_claims} right of {counts.claims}, {counts.ruled_out} ruled out"
        print(
            f"{name:<10} {form:<17} current first {counts.current_first} of {counts.asked}, outdated before"
            f" {counts.outdated_before}; links {counts.right} right of {counts.made}, {counts.there} there,"
            f" look-alikes {counts.look_alikes}; {counts.stored} of the life's facts"
            f"{claims if form == 'its claims' else ''}",
            flush=True,
        )


async def main(given: argparse.Namespace, url: str, out: Path) -> None:
    """Tell and measure each life."""
    local = ProviderConfig(base_url=url, timeout_ms=_PATIENCE_MS, stall_ms=_PATIENCE_MS, max_retries=0)
    config = Config(providers={"local": local}, memory=MemoryConfig(consolidation=False))
    totals: dict[str, Counts] = {}
    lives = [part(read(folder), given.pairs) for folder in given.folders] or [examples()]
    for life in lives:
        folder = out / life.name
        folder.mkdir(parents=True, exist_ok=True)
        home = make_home(folder / "home")
        own = prepare_config(life, config, f"local/{given.model}")
        progress(f"{life.name}: {sum(row['speaker'] == 'me' for row in life.messages)} messages")
        await tell(life, home, own, folder)
        found = await measure(life, home, own)
        show(life.name, found)
        for form, counts in found.items():
            totals.setdefault(form, Counts()).add(counts)
            for note in counts.notes if given.verbose else ():
                print(f"  {form}: {note}")
    if len(lives) > 1:
        show("all", totals)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("where", metavar="URL", help="a server's URL, or a GGUF file")
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--model", default="local", help="what the server calls the model")
    parser.add_argument("--pairs", type=int, default=10, help="replacements, and look-alikes, of each life")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--verbose", action="store_true", help="print every link and claim")
    arguments = parser.parse_args()
    is_file = arguments.where.endswith(".gguf")
    with (
        served(Path(arguments.where), _CONTEXT_TOKENS) if is_file else nullcontext(arguments.where) as at,
        tempfile.TemporaryDirectory() as scratch,
    ):
        asyncio.run(main(arguments, at, arguments.out or Path(scratch)))
