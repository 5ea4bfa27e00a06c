"""Scenes as the events ledger and the memory keep them: what was said, what was learned, the episode."""

from typing import Any

import apsw

from nexus import clock
from nexus.demo.month import OWNER, Scene
from nexus.demo.narration import Narrator
from nexus.ledgers import events
from nexus.ledgers.events import Direction, NewEvent, Participant
from nexus.memory.writing import Provenance

_KINDS = {"slack": "channel", "email": "email"}
WRITER = "memory-writer"


async def ensure_thread(narrator: Narrator, scene: Scene) -> str:
    """Return the id of the scene's thread."""
    return await narrator.ledgers.events.write(
        events.ensure_thread,
        channel=scene.channel,
        external_id=scene.thread,
        kind=_KINDS.get(scene.channel, "chat"),
        title=scene.thread.replace("-", " ").capitalize(),
    )


async def overhear(narrator: Narrator, scene: Scene) -> list[str]:
    """Record what people said to each other; returns the events' ids."""
    thread_id = await ensure_thread(narrator, scene)
    moments, new = [narrator.calendar.now()], list[NewEvent]()
    for who, text in scene.lines:
        narrator.calendar.spend(1_500 + 350 * len(text.split()) + narrator.draw.uniform(2_000, 90_000))
        moments.append(narrator.calendar.now())
        new.append(_event(narrator, scene, thread_id, who, text))

    def write(connection: apsw.Connection) -> list[str]:
        return [
            events.append(connection, [event], lambda moment=moment: moment)[0]
            for event, moment in zip(new, moments[1:], strict=True)
        ]

    return await narrator.ledgers.events.write(write)


def _event(narrator: Narrator, scene: Scene, thread_id: str, who: str, text: str) -> NewEvent:
    address = narrator.addresses.get((who, scene.channel), who)
    direction: Direction = "outbound" if who == OWNER else "inbound"
    return NewEvent(
        channel=scene.channel,
        content=text,
        direction=direction,
        thread_id=thread_id,
        sender=address,
        participants=(Participant(role="sender", identifier=address, display_name=who),),
    )


async def learn(
    narrator: Narrator, scene: Scene, event_ids: list[str], request_id: str | None = None
) -> None:
    """Write what was learned, each from the line that it was said in, and the scene as an episode."""
    first, last = event_ids[0], event_ids[-1]
    start, end = await _times(narrator, first, last)
    narrator.calendar.spend(15_000)
    provenance = Provenance(actor=WRITER, kind="owner", request_id=request_id)
    named: dict[str, None] = {}
    for entry in scene.learned:
        answer = await narrator.memory.run(
            entry["operation"], _operation(narrator, entry, event_ids), provenance
        )
        if "key" in entry:
            narrator.facts[entry["key"]] = answer["id"]
            narrator.said[entry["key"]] = entry["fact"]
        named |= dict.fromkeys(_names_in(entry))
    if scene.summary:
        episode = {
            "channel": scene.channel,
            "thread": await ensure_thread(narrator, scene),
            "title": scene.title,
            "summary": scene.summary,
            "start": start,
            "end": end,
            "events": event_ids,
            "entities": list(named),
        }
        await narrator.memory.run("episode", episode, provenance)


def _operation(narrator: Narrator, entry: Any, event_ids: list[str]) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in entry.items()
        if name not in {"operation", "line", "key", "because"} and value is not None
    }
    if entry.get("because"):
        kept["caused_by"] = [narrator.facts[key] for key in entry["because"]]
    return kept | {"event": event_ids[min(entry["line"], len(event_ids) - 1)]}


def _names_in(entry: Any) -> list[str]:
    """Return whom an operation names."""
    given = [entry.get("name"), entry.get("about"), entry.get("source"), entry.get("target")]
    return [each for each in (*given, *entry.get("entities", ())) if each]


async def _times(narrator: Narrator, first: str, last: str) -> tuple[str, str]:
    found = [await narrator.ledgers.events.read(events.get, event_id=event_id) for event_id in (first, last)]
    return tuple(event.occurred_at if event else clock.timestamp(narrator.calendar.now()) for event in found)  # pyright: ignore[reportReturnType]
