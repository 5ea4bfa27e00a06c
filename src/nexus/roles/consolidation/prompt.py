"""What the model is asked when facts are consolidated, and what its answer says."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from nexus import clock
from nexus.context.wrapping import wrapped
from nexus.errors import UnusableAnswerError
from nexus.ledgers import Ledgers
from nexus.ledgers.sql import rows
from nexus.memory.conclusions import batches, support
from nexus.memory.conclusions.batches import SQL, Batch
from nexus.memory.conclusions.observations import Conclusions, Draft
from nexus.text import join_lines

_LONGEST: Final = 2_000
_OBSERVATION: Final = re.compile(r"O([1-9][0-9]*)")


async def write_task(ledgers: Ledgers, batch: Batch, now: clock.Clock = clock.now) -> str:
    """Write the message of a batch. What was forgotten since it was chosen has no line."""
    shown, labels = await load_shown(ledgers, batch), batch.labels
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


async def load_shown(ledgers: Ledgers, batch: Batch) -> Shown:
    """Load what a batch shows, as far as it was not forgotten."""
    return Shown(await _load_facts(ledgers, batch.shown_ids), await _load_observations(ledgers, batch))


async def _load_facts(ledgers: Ledgers, ids: Sequence[str]) -> dict[str, str]:
    found = await ledgers.memory.read(rows, SQL["facts"], (json.dumps(list(ids)),))
    names = await batches.roots_of_entities(ledgers, [row[3] for row in found if row[3]])
    said = await batches.speakers_behind(ledgers, ids)
    return {row[0]: _format_fact(row, names.get(row[3], ("", ""))[1], said.get(row[0])) for row in found}


def _format_fact(row: tuple[Any, ...], about: str, speaker: str | None) -> str:
    _, fact, at, _, confidence, source_type = row
    notes = [source_type, *([f"said by {speaker}"] if speaker else [])]
    notes += [f"confidence {confidence:.1f}"] if confidence < 1 else []
    notes += [f"about {about}"] if about else []
    return f"[{at[:10]}] {join_lines(fact)} ({', '.join(notes)})"


async def _load_observations(ledgers: Ledgers, batch: Batch) -> dict[str, str]:
    wanted, labels = (json.dumps(batch.observation_ids),), batch.labels
    found = {row[0]: row for row in await ledgers.memory.read(rows, SQL["observations"], wanted)}
    lines: dict[str, str] = {}
    for place, id_ in enumerate(batch.observation_ids, start=1):
        if id_ in found:
            _, content, made_at, _, evidence = found[id_]
            shown = sorted(labels[fact] for fact in json.loads(evidence) if fact in labels)
            rests = f"; rests on {', '.join(shown)}" if shown else ""
            lines[id_] = f"O{place}. {join_lines(content)} (concluded {made_at[:10]}{rests})"
    return lines


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The conclusions of an answer, and what of it was refused or put right."""

    conclusions: Conclusions
    refused: tuple[str, ...] = ()
    """Why each observation was refused that was. Its facts are kept as they are."""
    repaired: int = 0


def read_answer(text: str, batch: Batch, shown: "Shown | None" = None) -> Reading:
    """Read the conclusions of an answer; an error says what is wrong with one that can't be used at all.

    With what the batch showed, each name and number must stand in what is cited. A citation that is off is
    put right if exactly one fact fits; otherwise the observation is refused, and the rest is used.
    """
    answer = _parse_object(text)
    given = answer.get("observations", [])
    if not isinstance(given, list):
        raise UnusableAnswerError("`observations` is not a list")
    drafts = tuple(_parse_draft(each, batch) for each in cast("list[object]", given))
    revised = [draft.revises for draft in drafts if draft.revises]
    if len(set(revised)) < len(revised):
        raise UnusableAnswerError("One observation is revised twice")
    named = {id_ for draft in drafts for id_ in draft.fact_ids}
    nothing = _parse_facts(answer.get("nothing_new", []), batch)
    if not {*named, *nothing}.intersection(batch.fact_ids):
        raise UnusableAnswerError("The answer names none of the new facts")
    checked = [(draft, draft if shown is None else _support_draft(draft, shown)) for draft in drafts]
    taken = tuple(draft for _, draft in checked if draft is not None)
    cited = {id_ for draft in taken for id_ in draft.fact_ids}
    skipped = tuple(id_ for id_ in batch.fact_ids if id_ in {*named, *nothing} and id_ not in cited)
    return Reading(
        conclusions=Conclusions(drafts=taken, skipped=skipped),
        refused=tuple(_explain_refusal(draft, shown) for draft, kept in checked if kept is None and shown),
        repaired=sum(kept is not None and kept.fact_ids != draft.fact_ids for draft, kept in checked),
    )


def _support_draft(draft: Draft, shown: "Shown") -> Draft | None:
    """Give a draft citations that support it; None if nothing shown says what it says."""
    if support.copies_placeholder(draft.text):
        return None
    beside = [shown.observations[draft.revises]] if draft.revises in shown.observations else []
    right = support.repair_citations(draft.text, draft.fact_ids, shown.facts, beside)
    return None if right is None else replace(draft, fact_ids=right.fact_ids)


def _explain_refusal(draft: Draft, shown: "Shown") -> str:
    missing = support.find_unsupported(draft.text, (shown.facts.get(id_, "") for id_ in draft.fact_ids))
    return f"{', '.join(sorted(missing)) or 'a placeholder'} not in what is cited"


def _parse_object(text: str) -> Mapping[str, Any]:
    """Parse the JSON object in an answer, despite words around it or a fence."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found: object = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError) as error:
        raise UnusableAnswerError(f"The answer is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnusableAnswerError("The answer holds no JSON object")
    return cast("dict[str, Any]", found)


def _parse_draft(given: object, batch: Batch) -> Draft:
    if not isinstance(given, dict):
        raise UnusableAnswerError("An observation is not an object")
    fields = cast("dict[str, object]", given)
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UnusableAnswerError("An observation has no text")
    if len(text) > _LONGEST:
        raise UnusableAnswerError(f"An observation is longer than {_LONGEST} characters")
    facts = _parse_facts(fields.get("facts"), batch)
    if not facts:
        raise UnusableAnswerError("An observation cites no fact")
    return Draft(text=join_lines(text), fact_ids=facts, revises=_parse_revision(fields.get("revises"), batch))


def _parse_facts(names: object, batch: Batch) -> tuple[str, ...]:
    """Parse short names of facts. A number, which older prompts gave them, is a place in the list, from 1."""
    shown = batch.shown_ids
    named = {label.upper(): id_ for id_, label in batch.labels.items()}
    listed = cast("list[object]", names) if isinstance(names, list) else [None]
    found: list[str] = []
    for name in listed:
        if isinstance(name, str) and name.strip(" []").upper() in named:
            found.append(named[name.strip(" []").upper()])
        elif type(name) is int and 1 <= name <= len(shown):
            found.append(shown[name - 1])
        else:
            raise UnusableAnswerError(f"{name!r:.40} is not the name of a fact that was shown")
    return tuple(dict.fromkeys(found))


def _parse_revision(name: object, batch: Batch) -> str | None:
    if name in (None, ""):
        return None
    named = _OBSERVATION.fullmatch(name) if isinstance(name, str) else None
    if named is None or int(named[1]) > len(batch.observation_ids):
        raise UnusableAnswerError(f"{name!r:.40} is not an observation that was shown")
    return batch.observation_ids[int(named[1]) - 1]
