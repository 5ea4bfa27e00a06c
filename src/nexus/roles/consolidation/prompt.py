"""What the model is shown of a batch: facts by number, and what was concluded before."""

import json
from collections.abc import Sequence
from typing import Any

from nexus import clock
from nexus.context.wrapping import wrapped
from nexus.ledgers import Ledgers
from nexus.memory.conclusions import batches, speakers
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.statements import SQL
from nexus.memory.writing import rows


async def task(ledgers: Ledgers, batch: Batch, now: clock.Clock = clock.now) -> str:
    """The message of a batch. What was forgotten since it was chosen has no line."""
    facts = await _facts(ledgers, batch.shown_ids)
    numbers = {id_: number for number, id_ in enumerate(batch.shown_ids, start=1)}
    new = [f"{numbers[id_]}. {facts[id_]}" for id_ in batch.fact_ids if id_ in facts]
    known = [f"{numbers[id_]}. {facts[id_]}" for id_ in batch.known_ids if id_ in facts]
    concluded = await _observations(ledgers, batch, numbers)
    parts = [
        wrapped("new_facts", "\n".join(new)),
        wrapped("known_facts", "\n".join(known)) if known else "",
        wrapped("observations", "\n".join(concluded)) if concluded else "",
        f"Today is {now():%Y-%m-%d}. Answer with the JSON object.",
    ]
    return "\n\n".join(filter(None, parts))


async def _facts(ledgers: Ledgers, ids: Sequence[str]) -> dict[str, str]:
    found = await ledgers.memory.read(lambda c: rows(c, SQL["facts"], (json.dumps(list(ids)),)))
    names = await batches.roots_of_entities(ledgers, [row[3] for row in found if row[3]])
    said = await speakers.behind(ledgers, ids)
    return {row[0]: _line(row, names.get(row[3], ("", ""))[1], said.get(row[0])) for row in found}


def _line(row: tuple[Any, ...], about: str, speaker: str | None) -> str:
    _, fact, at, _, confidence, source_type = row
    notes = [source_type, *([f"said by {speaker}"] if speaker else [])]
    notes += [f"confidence {confidence:.1f}"] if confidence < 1 else []
    notes += [f"about {about}"] if about else []
    return f"[{at[:10]}] {_one_line(fact)} ({', '.join(notes)})"


async def _observations(ledgers: Ledgers, batch: Batch, numbers: dict[str, int]) -> list[str]:
    wanted = (json.dumps(batch.observation_ids),)
    found = {row[0]: row for row in await ledgers.memory.read(lambda c: rows(c, SQL["observations"], wanted))}
    lines: list[str] = []
    for place, id_ in enumerate(batch.observation_ids, start=1):
        if id_ in found:
            _, content, made_at, _, evidence = found[id_]
            shown = sorted(numbers[fact] for fact in json.loads(evidence) if fact in numbers)
            rests = f"; rests on {', '.join(map(str, shown))}" if shown else ""
            lines.append(f"O{place}. {_one_line(content)} (concluded {made_at[:10]}{rests})")
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())
