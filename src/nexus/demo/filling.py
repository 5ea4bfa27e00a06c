"""Writing the month into a home: everything through the writers that the program itself uses."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from nexus import ids
from nexus.automations import registration
from nexus.automations.loading import load
from nexus.config import Config
from nexus.demo import conversations, people, programs
from nexus.demo.answers import RequestWriter, Status
from nexus.demo.month import DAYS, Scene, Work, conclusions, plan, start_of
from nexus.demo.narration import Calendar, Narrator
from nexus.demo.people import ConclusionWriter
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.operations import Memory
from nexus.memory.views import entities
from nexus.memory.views.names import find_family
from nexus.memory.writing import Provenance
from nexus.roles.bundled import bundled

Event = Callable[[], Awaitable[None]]


class Events:
    """What happens once in the month, beside the conversations, each on its day."""

    def __init__(self, home: Home, answers: RequestWriter, until: datetime) -> None:
        self._home = home
        self._answers = answers
        self._narrator = answers.narrator
        start = start_of(until)
        writer = ConclusionWriter(narrator=self._narrator)
        conclusion_events = [
            (moment, partial(writer.observe if kind == "observation" else writer.model, entry))
            for moment, kind, entry in conclusions(until)
        ]
        days: list[tuple[datetime, Event]] = [
            (start + timedelta(days=day), event)
            for day, event in (
                (6, partial(self._revise, 2)),
                (8, self._let_tomas_in),
                (11.6, self._merge),
                (13, self._refuse_a_stranger),
                (16.4, partial(self._go_wrong, "failed")),
                (18, partial(self._revise, 3)),
                (20.5, partial(self._go_wrong, "cancelled")),
                (22.8, self._spend_too_much),
                (24, self._tell_brams_apart),
                (26.5, self._close_parcels),
            )
        ]
        self._waiting = sorted([*days, *conclusion_events], key=lambda event: event[0])

    async def run_until(self, moment: datetime) -> None:
        """Run the events up to a moment that have not run yet."""
        while self._waiting and self._waiting[0][0] <= moment:
            await self._waiting.pop(0)[1]()

    async def _revise(self, version: int) -> None:
        self._answers.programs["tag-errands"] = await programs.revise(self._home, self._narrator, version)

    async def _let_tomas_in(self) -> None:
        await people.let_in(self._narrator, "Tomas Reyes", "signal")

    async def _merge(self) -> None:
        merge = {"source": "P. Raman", "target": "Priya Raman", "reason": "the same address"}
        await self._narrator.memory.run("merge", merge, Provenance(actor=people.OWNER_SENDER, kind="owner"))

    async def _refuse_a_stranger(self) -> None:
        """Give a code to somebody unknown whom nobody has let in."""
        seen = Seen(channel="signal", identifier="+31612345699", display_name="Unknown number")
        sender = await self._narrator.ledgers.identity.write(senders.resolve, seen=seen)
        await self._narrator.ledgers.identity.write(
            access.ask, contact_id=sender.contact_id, now=self._narrator.calendar.now
        )
        await self._answers.deny(seen, "Hello, is this the assistant of Mira? I have a parcel for her.")

    async def _go_wrong(self, status: Status) -> None:
        scene = Scene(
            at=self._narrator.calendar.now(),
            channel="cli",
            thread="work",
            lines=(),
            work=Work(tools=(("read", "tidal-room/plan.md"),)),
        )
        text = "Read the whole plan of the Tidal Room and tell me what contradicts itself."
        await self._answers.answer(scene, text, "", work=True, status=status)

    async def _spend_too_much(self) -> None:
        """Write a message whose answer costs more than one message may."""
        files = tuple(("read", f"invoices/{year}.csv") for year in range(2014, 2026))
        scene = Scene(
            at=self._narrator.calendar.now(), channel="cli", thread="work", lines=(), work=Work(tools=files)
        )
        text = "Read every invoice that we ever wrote, and tell me what oak has cost us over the years."
        await self._answers.answer(scene, text, "", work=True, status="failed", refused=True)

    async def _tell_brams_apart(self) -> None:
        """Reject two of the merge candidates; the rest is left for whoever looks."""
        same = await find_family(self._narrator.ledgers, "Bram de Witt")
        for pair in await entities.load_candidates(self._narrator.ledgers, entity_ids=same):
            reject = {"candidate": pair.id}
            await self._narrator.memory.run(
                "reject", reject, Provenance(actor=people.OWNER_SENDER, kind="owner")
            )

    async def _close_parcels(self) -> None:
        self._answers.parcels_are_gone = True


_REPORTED_EVERY = 4
Progress = Callable[[int, int], None]
"""Called with how many scenes of how many are written."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Which month to write."""

    seed: int
    until: datetime
    scale: int = 1


async def fill(home: Home, config: Config, demo: Demo, progress: Progress = lambda _, __: None) -> int:
    """Write the month into a home that holds nothing; returns how many scenes it has."""
    scenes = plan(demo.seed, demo.until, demo.scale)
    calendar = Calendar(demo.until - timedelta(days=DAYS + 1))
    draw = random.Random(demo.seed)  # noqa: S311 - a story, not a secret
    # A power cut in the midst of it loses nothing that anybody has said.
    settings = replace(config.ledgers, synchronous="normal")
    with ids.made_by(ids.Ulids(calendar.now_us, random.Random(demo.seed))):  # noqa: S311 - no secret
        async with Ledgers(home, settings, now=calendar.now) as ledgers:
            memory = Memory(ledgers, phone_region=config.memory.phone_region, now=calendar.now)
            narrator = Narrator(ledgers=ledgers, memory=memory, calendar=calendar, draw=draw)
            await _write_month(home, config, narrator, scenes, demo.until, progress)
            # After the month, whose ids they don't change.
            write = registration.writer(ledgers)
            await asyncio.to_thread(load, home, write, bundled(config=config))
    return len(scenes)


async def _write_month(
    home: Home, config: Config, narrator: Narrator, scenes: list[Scene], until: datetime, progress: Progress
) -> None:
    await people.introduce(narrator)
    answers = RequestWriter(
        narrator=narrator,
        programs=await programs.register(home, narrator),
        error_limit=config.automations.circuit_errors,
        spoken={},
    )
    events_of_month = Events(home, answers, until)
    for number, scene in enumerate(scenes):
        narrator.calendar.reach(scene.at)
        await events_of_month.run_until(narrator.calendar.now())
        if scene.with_agent:
            await answers.converse(scene)
        else:
            event_ids = await conversations.overhear(narrator, scene)
            if scene.learned or scene.summary:
                await conversations.learn(narrator, scene, event_ids)
        if number % _REPORTED_EVERY == 0:
            progress(number, len(scenes))
    progress(len(scenes), len(scenes))
