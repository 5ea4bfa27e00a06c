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
from nexus.demo.answers import Answers, Status
from nexus.demo.month import DAYS, Scene, Work, conclusions, plan, start_of
from nexus.demo.narration import Calendar, Narrator
from nexus.demo.people import ConclusionWriter
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory import views
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance
from nexus.roles.bundled import bundled

Event = Callable[[], Awaitable[None]]


class Events:
    """Waits for the days on which something particular happens."""

    def __init__(self, home: Home, answers: Answers, until: datetime) -> None:
        self._home = home
        self._answers = answers
        self._telling = answers.telling
        start = start_of(until)
        concluding = ConclusionWriter(telling=self._telling)
        concluded = [
            (moment, partial(concluding.observe if kind == "observation" else concluding.model, told))
            for moment, kind, told in conclusions(until)
        ]
        days: list[tuple[datetime, Event]] = [
            (start + timedelta(days=day), happening)
            for day, happening in (
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
        self._waiting = sorted([*days, *concluded], key=lambda happening: happening[0])

    async def until(self, moment: datetime) -> None:
        """Let happen what has not happened by then."""
        while self._waiting and self._waiting[0][0] <= moment:
            await self._waiting.pop(0)[1]()

    async def _revise(self, version: int) -> None:
        self._answers.programs["tag-errands"] = await programs.revise(self._home, self._telling, version)

    async def _let_tomas_in(self) -> None:
        await people.let_in(self._telling, "Tomas Reyes", "signal")

    async def _merge(self) -> None:
        merge = {"source": "P. Raman", "target": "Priya Raman", "reason": "the same address"}
        await self._telling.memory.run("merge", merge, Provenance(actor=people.OWNER_SENDER, kind="owner"))

    async def _refuse_a_stranger(self) -> None:
        """Somebody unknown is told a code, and nobody has let them in."""
        seen = Seen(channel="signal", identifier="+31612345699", display_name="Unknown number")
        sender = await self._telling.ledgers.identity.write(senders.resolve, seen=seen)
        await self._telling.ledgers.identity.write(
            access.ask, contact_id=sender.contact_id, now=self._telling.calendar.now
        )
        await self._answers.deny(seen, "Hello, is this the assistant of Mira? I have a parcel for her.")

    async def _go_wrong(self, status: Status) -> None:
        scene = Scene(
            at=self._telling.calendar.now(),
            channel="cli",
            thread="work",
            lines=(),
            work=Work(tools=(("read", "tidal-room/plan.md"),)),
        )
        text = "Read the whole plan of the Tidal Room and tell me what contradicts itself."
        await self._answers.answer(scene, text, "", work=True, status=status)

    async def _spend_too_much(self) -> None:
        """A message whose answer costs more than one message may."""
        files = tuple(("read", f"invoices/{year}.csv") for year in range(2014, 2026))
        scene = Scene(
            at=self._telling.calendar.now(), channel="cli", thread="work", lines=(), work=Work(tools=files)
        )
        text = "Read every invoice that we ever wrote, and tell me what oak has cost us over the years."
        await self._answers.answer(scene, text, "", work=True, status="failed", refused=True)

    async def _tell_brams_apart(self) -> None:
        """Two of the merge candidates are not one; the rest is left for whoever looks."""
        same = await views.find(self._telling.ledgers, "Bram de Witt")
        for pair in await views.candidates(self._telling.ledgers, status="pending", entities=same):
            reject = {"candidate": pair["id"]}
            await self._telling.memory.run(
                "reject", reject, Provenance(actor=people.OWNER_SENDER, kind="owner")
            )

    async def _close_parcels(self) -> None:
        self._answers.parcels_are_gone = True


_TOLD_EVERY = 4
Told = Callable[[int, int], None]
"""Hears how many scenes of how many are written."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Which month is to be told."""

    seed: int
    until: datetime
    scale: int = 1


async def fill(home: Home, config: Config, demo: Demo, told: Told = lambda _, __: None) -> int:
    """Write the month into a home that holds nothing; returns how many scenes it has."""
    scenes = plan(demo.seed, demo.until, demo.scale)
    calendar = Calendar(demo.until - timedelta(days=DAYS + 1))
    draw = random.Random(demo.seed)  # noqa: S311 - a story, not a secret
    # A power cut in the midst of it loses nothing that anybody has said.
    settings = replace(config.ledgers, synchronous="normal")
    with ids.made_by(ids.Ulids(calendar.now_us, random.Random(demo.seed))):  # noqa: S311 - no secret
        async with Ledgers(home, settings, now=calendar.now) as ledgers:
            memory = Memory(ledgers, phone_region=config.memory.phone_region, now=calendar.now)
            telling = Narrator(ledgers=ledgers, memory=memory, calendar=calendar, draw=draw)
            await _tell(home, config, telling, scenes, demo.until, told)
            # After the month, whose ids they don't change.
            write = registration.writer(ledgers)
            await asyncio.to_thread(load, home, write, bundled(config=config))
    return len(scenes)


async def _tell(
    home: Home, config: Config, telling: Narrator, scenes: list[Scene], until: datetime, told: Told
) -> None:
    await people.introduce(telling)
    answers = Answers(
        telling=telling,
        programs=await programs.register(home, telling),
        error_limit=config.automations.circuit_errors,
        spoken={},
    )
    happenings = Events(home, answers, until)
    for number, scene in enumerate(scenes):
        telling.calendar.reach(scene.at)
        await happenings.until(telling.calendar.now())
        if scene.with_agent:
            await answers.converse(scene)
        else:
            heard = await conversations.overhear(telling, scene)
            if scene.learned or scene.summary:
                await conversations.learn(telling, scene, heard)
        if number % _TOLD_EVERY == 0:
            told(number, len(scenes))
    told(len(scenes), len(scenes))
