"""What the model is shown of a batch: facts by their short names, and what was concluded before."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nexus import clock
from nexus.context.wrapping import wrapped
from nexus.ledgers import Ledgers
from nexus.ledgers.sql import rows
from nexus.memory.conclusions import batches, speakers
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.statements import SQL


async def task(ledgers: Ledgers, batch: Batch, now: clock.Clock = clock.now) -> str:
    """The message of a batch. What was forgotten since it was chosen has no line."""
    shown, labels = await texts(ledgers, batch), batch.labels
    new = [f"{labels[id_]}. {shown.facts[id_]}" for id_ in batch.fact_ids if id_ in shown.facts]
    known = [f"{labels[id_]}. {shown.facts[id_]}" for id_ in batch.known_ids if id_ in shown.facts]
    concluded = list(shown.observations.values())
    parts = [
        wrapped("new_facts", "\n".join(new)),
        wrapped("known_facts", "\n".join(known)) if known else "",
        wrapped("observations", "\n".join(concluded)) if concluded else "",
        f"Today is {now():%Y-%m-%d}. Answer with the JSON object.",
    ]
    return "\n\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Shown:
    """The lines of a batch by the ids of facts and observations."""

    facts: dict[str, str]
    observations: dict[str, str]


async def texts(ledgers: Ledgers, batch: Batch) -> Shown:
    """What a batch shows, as far as it was not forgotten."""
    return Shown(await _facts(ledgers, batch.shown_ids), await _observations(ledgers, batch))


async def _facts(ledgers: Ledgers, ids: Sequence[str]) -> dict[str, str]:
    found = await ledgers.memory.read(rows, SQL["facts"], (json.dumps(list(ids)),))
    names = await batches.roots_of_entities(ledgers, [row[3] for row in found if row[3]])
    said = await speakers.behind(ledgers, ids)
    return {row[0]: _line(row, names.get(row[3], ("", ""))[1], said.get(row[0])) for row in found}


def _line(row: tuple[Any, ...], about: str, speaker: str | None) -> str:
    _, fact, at, _, confidence, source_type = row
    notes = [source_type, *([f"said by {speaker}"] if speaker else [])]
    notes += [f"confidence {confidence:.1f}"] if confidence < 1 else []
    notes += [f"about {about}"] if about else []
    return f"[{at[:10]}] {_one_line(fact)} ({', '.join(notes)})"


async def _observations(ledgers: Ledgers, batch: Batch) -> dict[str, str]:
    wanted, labels = (json.dumps(batch.observation_ids),), batch.labels
    found = {row[0]: row for row in await ledgers.memory.read(rows, SQL["observations"], wanted)}
    lines: dict[str, str] = {}
    for place, id_ in enumerate(batch.observation_ids, start=1):
        if id_ in found:
            _, content, made_at, _, evidence = found[id_]
            shown = sorted(labels[fact] for fact in json.loads(evidence) if fact in labels)
            rests = f"; rests on {', '.join(shown)}" if shown else ""
            lines[id_] = f"O{place}. {_one_line(content)} (concluded {made_at[:10]}{rests})"
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())
