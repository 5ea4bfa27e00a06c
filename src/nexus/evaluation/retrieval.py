"""Asks recall a benchmark's questions, without any language model, and scores what it finds.

A question counts if its benchmark names the messages or sessions that answer it. Each conversation is a home
in OUT/retrieval/; OUT/retrieval.jsonl has every question with what was found.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from nexus import clock
from nexus.config import LedgersConfig
from nexus.evaluation.life import Life, Row
from nexus.evaluation.playback import ASSISTANT, ME, make_home
from nexus.ledgers import Ledgers, events
from nexus.memory.embedding import MODELS, Vectors, embed_new, find, load, model_for
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall

COLUMNS: Final = (
    "kind",
    "questions#",
    "R@5#",
    "R@10#",
    "NDCG@10#",
    "session any@5#",
    "session all@5#",
    "ms#",
)
LEGEND: Final = """\
R@5, R@10: answering messages among the first 5 and 10 found. any session@5, all sessions@5: questions for
which any, or every, answering session is among the first 5 (recall_any and recall_all of LongMemEval).
ms: median."""
_DEEPEST: Final = 50
# What is found must not depend on what else the machine does.
_DEADLINE_MS: Final = 60_000
_SCORES: Final = ("R@5", "R@10", "NDCG@10", "any@5", "all@5")


async def ask_all(lives: Sequence[Life], out: Path, *, budget: str, told: Callable[[str], None]) -> list[Row]:
    """Fill a home with each conversation, and ask its questions."""
    embedder = load(find(MODELS[model_for("en")]))
    asked: list[Row] = []
    with (out / "retrieval.jsonl").open("w", encoding="utf-8") as file:
        for number, life in enumerate(lives, start=1):
            home = make_home(out / "retrieval" / life.name)
            async with Ledgers(home, LedgersConfig(synchronous="normal")) as ledgers:
                ids = await ledgers.events.write(_append, life)
                vectors = Vectors(ledgers.embeddings, embedder)
                await embed_new(ledgers, vectors)
                await vectors.mirror.refresh()
                recall = Recall(ledgers, vectors, now=lambda at=life.asked_at: at)
                sessions = dict(await ledgers.events.read(_list_threads))
                for question in life.questions:
                    if row := await _ask(recall, question, life, ids, sessions, budget):
                        asked.append({"life": life.name, **row})
                        file.write(json.dumps(asked[-1], ensure_ascii=False) + "\n")
            told(f"{life.name}: conversation {number} of {len(lives)}, {len(asked)} questions asked")
    return asked


async def _ask(
    recall: Recall, question: Row, life: Life, ids: dict[str, str], sessions: dict[str, str], budget: str
) -> Row | None:
    wanted = set(question["evidence"])
    wanted_sessions = set(question.get("sessions") or (life.session_of[key] for key in wanted))
    if not wanted_sessions:
        return None
    query = Query(
        text=str(question["text"]),
        max_results=_DEEPEST,
        max_tokens=10**9,
        budget=budget,  # type: ignore[arg-type]
        deadline_ms=_DEADLINE_MS,
        rank_threads=True,
    )
    started = time.perf_counter()
    matches = await recall.find(query)
    spent_ms = (time.perf_counter() - started) * 1000
    found = [ids[match.item.id] for match in matches.results]
    best = [sessions[thread] for thread, _ in matches.threads]
    return {
        "id": question["id"],
        "kind": question["kind"],
        "question": question["text"],
        "wanted": sorted(wanted),
        "wanted_sessions": sorted(wanted_sessions),
        "found": found,
        "found_sessions": best[:_DEEPEST],
        "spent_ms": round(spent_ms, 1),
        "late": list(matches.late_arms),
        **(_score_messages(found, wanted) if wanted else {}),
        "any@5": float(any(each in wanted_sessions for each in best[:5])),
        "all@5": float(wanted_sessions.issubset(best[:5])),
    }


def _score_messages(found: Sequence[str], wanted: set[str]) -> dict[str, float]:
    gains = [1 / math.log2(place + 2) for place in range(10)]
    best = sum(gains[: len(wanted)])
    return {
        "R@5": len(wanted & set(found[:5])) / len(wanted),
        "R@10": len(wanted & set(found[:10])) / len(wanted),
        "NDCG@10": sum(gain for gain, key in zip(gains, found, strict=False) if key in wanted) / best,
    }


def summarize(asked: Sequence[Row]) -> dict[str, Row]:
    """Mean scores of each kind of question, and of all."""
    kinds = sorted({str(row["kind"]) for row in asked})
    parts = {kind: [row for row in asked if row["kind"] == kind] for kind in kinds} | {"all": list(asked)}
    return {kind: _summarize(rows) for kind, rows in parts.items() if rows}


def _summarize(rows: Sequence[Row]) -> Row:
    found: Row = {"questions": len(rows)}
    for name in _SCORES:
        values = [row[name] for row in rows if name in row]
        found[name] = round(sum(values) / len(values), 4) if values else None
    found["ms"] = sorted(row["spent_ms"] for row in rows)[len(rows) // 2]
    return found


def table(summary: dict[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each kind of question."""
    for kind, row in summary.items():
        scores = ("–" if row[name] is None else f"{row[name]:.3f}" for name in _SCORES)  # noqa: RUF001 - a dash
        yield (kind, f"{row['questions']:,}", *scores, f"{row['ms']:.0f}")


def _append(connection: apsw.Connection, life: Life) -> dict[str, str]:
    """Record the messages as ordinary events; returns which message each event is."""
    threads = {
        name: events.ensure_thread(connection, channel="chat", external_id=name, kind="session")
        for name in life.sessions
    }
    said = [row for rows in life.sessions.values() for row in rows]
    names: dict[str, str] = {ME: life.owner, ASSISTANT: ASSISTANT, **life.names}
    ids = events.append(
        connection,
        [
            events.NewEvent(
                channel="chat",
                content=str(row["text"]),
                direction="outbound" if row["speaker"] == ASSISTANT else "inbound",
                thread_id=threads[str(row["session"])],
                external_id=str(row["key"]),
                sender=names.get(str(row["speaker"]), str(row["speaker"])),
                occurred_at=clock.parse(row["time"]),
            )
            for row in said
        ],
    )
    return {id_: str(row["key"]) for id_, row in zip(ids, said, strict=True)}


def _list_threads(connection: apsw.Connection) -> list[Any]:
    return connection.execute("SELECT id, external_id FROM threads").fetchall()
