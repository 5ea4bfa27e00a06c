"""How far an exam of the memory can be trusted.

    python bench/exam.py lives FOLDER…     against the questions of authored lives
    python bench/exam.py damage FOLDER…    whether deliberate damage is found
    python bench/exam.py scale [FACTS]     processor time of a sample of 300

Each FOLDER is a life (bench/lives/README.md has the format). `lives` compares, fact by fact, what the exam
finds with what the life's own questions find; `damage` hides vectors, files facts under somebody else, breaks
aliases and adds contradictions, a kind at a time.
"""

import argparse
import asyncio
import random
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import life_data
import numpy as np

from nexus import clock, ids
from nexus.config import LedgersConfig
from nexus.evaluation import exam
from nexus.evaluation.exam_checks import find_problems
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.memory.exams import Finding
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from nexus.memory.succession import derive

_DAMAGED = 20
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


async def compare(folder: Path) -> tuple[str, list[tuple[float, float]]]:
    """Return, for each fact that a question is about, what share of both kinds of questions finds it."""
    life = life_data.read(folder)
    async with life_data.home_of(life, "facts") as (recall, filled, _):
        opened, vectors = parts(recall)
        result = await run(opened, recall, vectors, life)
        of_exam = {filled.keys_of_fact[each.fact_id]: each.found / each.asked for each in result.answers}
        of_life: dict[str, list[bool]] = {}
        for question in life.questions:
            if not question["evidence"]:
                continue
            answer = await recall.find(Query(text=question["text"], max_results=5, deadline_ms=60_000))
            found = frozenset[str]().union(*(filled.keys(match.item.id) for match in answer.results))
            for key in question["evidence"]:
                of_life.setdefault(key, []).append(key in found)
        pairs = [(of_exam[key], float(np.mean(hits))) for key, hits in of_life.items() if key in of_exam]
        return life.name, pairs


async def damage(folder: Path, kinds: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """Count by kind the damage that was found, all of it, and the findings that were there before."""
    life = life_data.read(folder)
    found: dict[str, tuple[int, int, int]] = {}
    for kind in kinds:
        async with life_data.home_of(life, "facts", links="stated") as (recall, _, _):
            opened, vectors = parts(recall)
            before = await look(opened, vectors, life)
            damaged = await _DAMAGES[kind](opened, life, random.Random(7))
            if kind == "contradiction":
                await embed_new(opened, vectors)
            await vectors.mirror.refresh()
            if kind == "contradiction":
                await derive(opened, vectors)
            reported = [each for each in await look(opened, vectors, life) if each.problem == kind]
            if kind == "alias":
                hits = damaged & {each.entity_id for each in reported if each.entity_id}
            elif kind == "contradiction":
                linked = set(await opened.memory.read(_links))
                pairs = {frozenset((each.fact_id, each.other_fact_id or "")) for each in reported}
                hits = {pair for pair in damaged if pair in pairs or pair in linked}
            else:
                hits = damaged & {each.fact_id for each in reported}
            found[kind] = len(hits), len(damaged), sum(each.problem == kind for each in before)
    return found


def parts(recall: Recall) -> tuple[Ledgers, Vectors]:
    """Return what a home's recall works with."""
    opened, vectors = recall._ledgers, recall._vectors  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert vectors is not None
    return opened, vectors


async def run(opened: Ledgers, recall: Recall, vectors: Vectors, life: life_data.Life) -> exam.Result:
    now = clock.parse(life.persona["now"])
    drawn = await exam.draw(opened, size=10_000, is_new=True, now=lambda: now)
    return await exam.examine(opened, recall, vectors, drawn, settings={})


async def look(opened: Ledgers, vectors: Vectors, life: life_data.Life) -> list[Finding]:
    """Look for what is wrong with every fact, without asking for any."""
    now = clock.parse(life.persona["now"])
    drawn = await exam.draw(opened, size=10_000, is_new=True, now=lambda: now)
    openings = [(each.entity_id, each.opening) for each in drawn.standing]
    return await find_problems(opened, vectors, drawn.facts, [], openings)


def _links(connection: apsw.Connection) -> list[frozenset[str]]:
    rows = connection.execute("SELECT old_fact_id, new_fact_id FROM fact_successions").fetchall()
    return [frozenset(map(str, row)) for row in rows]


_STANDING = """SELECT id, fact, source_entity_id FROM facts
WHERE source_entity_id IS NOT NULL AND id NOT IN (SELECT old_fact_id FROM fact_successions) ORDER BY seq"""


async def hide_vectors(opened: Ledgers, life: life_data.Life, rng: random.Random) -> set[Any]:
    facts = [str(row[0]) for row in await opened.memory.read(lambda c: c.execute(_STANDING).fetchall())]
    chosen = rng.sample(facts, min(_DAMAGED, len(facts)))

    def drop(connection: apsw.Connection) -> None:
        connection.executemany("DELETE FROM embeddings WHERE target_id = ?", [(id_,) for id_ in chosen])

    await opened.embeddings.write(drop)
    return set(chosen)


async def misfile(opened: Ledgers, life: life_data.Life, rng: random.Random) -> set[Any]:
    """File facts that begin with a person's name under another person."""
    people = await opened.identity.read(
        lambda c: c.execute("SELECT id, canonical_name FROM entities WHERE type = 'Person'").fetchall()
    )
    names = {str(id_): str(name) for id_, name in people}
    rows = await opened.memory.read(lambda c: c.execute(_STANDING).fetchall())
    able = [
        (str(id_), str(source))
        for id_, text, source in rows
        if source in names and str(text).startswith(names[str(source)].split()[0])
    ]
    chosen = rng.sample(able, min(_DAMAGED, len(able)))

    def move(connection: apsw.Connection) -> None:
        connection.execute("DROP TRIGGER facts_are_not_changed")
        for id_, source in chosen:
            text = connection.execute("SELECT fact FROM facts WHERE id = ?", (id_,)).get
            others = [each for each in names if each != source and names[each].split()[0] not in str(text)]
            connection.execute(
                "UPDATE facts SET source_entity_id = ?, target_entity_id = NULL WHERE id = ?",
                (rng.choice(others), id_),
            )
            connection.execute("DELETE FROM fact_entities WHERE fact_id = ?", (id_,))

    await opened.memory.write(move)
    return {id_ for id_, _ in chosen}


async def break_aliases(opened: Ledgers, life: life_data.Life, rng: random.Random) -> set[Any]:
    """Take the first name from people about whom facts begin with it."""
    people = await opened.identity.read(
        lambda c: c.execute(
            "SELECT id, canonical_name FROM entities WHERE type = 'Person' AND canonical_name LIKE '% %'"
        ).fetchall()
    )
    rows = await opened.memory.read(lambda c: c.execute(_STANDING).fetchall())
    able = [
        (str(id_), str(name).split()[0])
        for id_, name in people
        if any(
            source == id_ and str(text).startswith(str(name).split()[0]) and str(name) not in str(text)
            for _, text, source in rows
        )
    ]

    def drop(connection: apsw.Connection) -> None:
        for id_, first in able:
            connection.execute(
                "DELETE FROM entity_aliases WHERE entity_id = ? AND normalized = ?", (id_, first.lower())
            )

    await opened.identity.write(drop)
    return {id_ for id_, _ in able}


async def contradict(opened: Ledgers, life: life_data.Life, rng: random.Random) -> set[Any]:
    """Add facts that say the same as others but for a day, a month or a number."""
    rows = await opened.memory.read(lambda c: c.execute(_STANDING).fetchall())
    able = [(str(row[0]), str(row[2]), new) for row in rows if (new := change_value(str(row[1]), rng))]
    chosen = rng.sample(able, min(_DAMAGED, len(able)))
    at, pairs = clock.timestamp(clock.parse(life.persona["now"])), set[frozenset[str]]()

    def add(connection: apsw.Connection) -> None:
        for id_, source, text in chosen:
            new = ids.new("fact")
            connection.execute(
                "INSERT INTO facts (id, source_entity_id, fact, as_of, created_at, valid_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (new, source, text, at, at, at),
            )
            pairs.add(frozenset((id_, new)))

    await opened.memory.write(add)
    return pairs


def change_value(text: str, rng: random.Random) -> str | None:
    for words in (_DAYS, _MONTHS):
        for word in words:
            if re.search(rf"\b{word}\b", text):
                return re.sub(
                    rf"\b{word}\b", rng.choice([each for each in words if each != word]), text, count=1
                )
    match = re.search(r"\b\d+\b", text)
    if match is None:
        return None
    return f"{text[: match.start()]}{int(match[0]) + rng.choice((1, 2, 3, 7))}{text[match.end() :]}"


_DAMAGES = {"vector": hide_vectors, "entity": misfile, "alias": break_aliases, "contradiction": contradict}


class Words:
    """A fast embedder by hashed words: the time of a real one is that of the questions alone."""

    model_id = "words@1"
    dimensions = 384

    def embed(self, texts: Any) -> np.ndarray:
        vectors = np.full((len(texts), self.dimensions), 1e-3, np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, hash(word) % self.dimensions] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed_queries = embed


async def scale(facts: int) -> None:
    """Measure an exam of a home with so many facts of invented words."""
    rng = random.Random(3)
    words = ["".join(rng.choices("bcdfglmnprstaeiou", k=rng.randint(4, 9))) for _ in range(20_000)]
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch) / "home")
        home.create()
        async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
            people = [(f"ent_{n}", rng.choice(words).capitalize()) for n in range(facts // 50)]

            def add_people(connection: apsw.Connection) -> None:
                for id_, name in people:
                    connection.execute(
                        "INSERT INTO entities (id, type, canonical_name, normalized_name)"
                        " VALUES (?, 'Person', ?, ?)",
                        (id_, name, name.lower()),
                    )

            def add_facts(connection: apsw.Connection) -> None:
                for number in range(facts):
                    id_, name = people[int(len(people) * rng.random() ** 2)]
                    at = f"202{number % 6}-0{1 + number % 9}-1{number % 10}T10:00:00.000Z"
                    text = f"{name} {' '.join(rng.choices(words, k=7))}"
                    connection.execute(
                        "INSERT INTO facts (id, source_entity_id, fact, as_of, created_at, valid_at,"
                        " metadata_json) VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (f"fact_{number:08}", id_, text, at, at, at, '{"written": {"by": "x"}}'),
                    )

            await opened.identity.write(add_people)
            await opened.memory.write(add_facts)
            vectors = Vectors(opened.embeddings, Words())
            await embed_new(opened, vectors)
            await vectors.mirror.refresh()
            before = time.process_time()
            drawn = await exam.draw(opened)
            result = await exam.examine(opened, Recall(opened, vectors), vectors, drawn, settings={})
            spent = time.process_time() - before
            asked = sum(each.asked for each in result.answers)
            print(
                f"{facts:,} facts, sample of {result.exam.sampled}, {asked:,} questions: {spent:.0f} s of "
                f"processor time; {result.exam.found} found"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("lives", "damage", "scale"))
    parser.add_argument("given", nargs="*")
    parser.add_argument("--only", action="append", choices=tuple(_DAMAGES), help="only this kind of damage")
    given = parser.parse_args()
    if given.what == "scale":
        asyncio.run(scale(int(given.given[0]) if given.given else 100_000))
    elif given.what == "damage":
        totals: dict[str, list[int]] = {}
        for folder in map(Path, given.given):
            found = asyncio.run(damage(folder, given.only or list(_DAMAGES)))
            print(folder.name, found, flush=True)
            for kind, counts in found.items():
                totals[kind] = [a + b for a, b in zip(totals.get(kind, [0, 0, 0]), counts, strict=True)]
        for kind, (hits, asked, before) in totals.items():
            print(f"| {kind} | {hits} of {asked} | {hits / max(1, asked):.1%} | {before} |")
    else:
        everything: list[tuple[float, float]] = []
        for folder in map(Path, given.given):
            name, pairs = asyncio.run(compare(folder))
            everything += pairs
            print(f"| {name} | {describe(pairs)} |", flush=True)
        print(f"| all | {describe(everything)} |")


def describe(pairs: list[tuple[float, float]]) -> str:
    one, two = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    varies = len(pairs) > 2 and one.std() > 0 and two.std() > 0
    correlation = f"{np.corrcoef(one, two)[0, 1]:.2f}" if varies else "-"
    low, high = two[one < 0.5], two[one >= 0.5]
    means = [f"{some.mean():.2f} ({len(some)})" if len(some) else "-" for some in (high, low)]
    return f"{len(pairs)} | {one.mean():.2f} | {two.mean():.2f} | {correlation} | {means[0]} | {means[1]}"


if __name__ == "__main__":
    main()
