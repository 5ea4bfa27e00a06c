"""Writing the month into a home: everything through the writers that the program itself uses."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nexus import ids
from nexus.automations import registration
from nexus.automations.loading import load
from nexus.config import Config
from nexus.demo import conversations, people, programs
from nexus.demo.answers import Answers
from nexus.demo.events import Happenings
from nexus.demo.month import DAYS, Scene, plan
from nexus.demo.narration import Calendar, Telling
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.roles.bundled import bundled_plugins

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
            telling = Telling(ledgers=ledgers, memory=memory, calendar=calendar, draw=draw)
            await _tell(home, config, telling, scenes, demo.until, told)
            # After the month, whose ids they don't change.
            write = registration.writer(ledgers)
            await asyncio.to_thread(load, home, write, bundled_plugins(config=config))
    return len(scenes)


async def _tell(
    home: Home, config: Config, telling: Telling, scenes: list[Scene], until: datetime, told: Told
) -> None:
    await people.introduce(telling)
    answers = Answers(
        telling=telling,
        programs=await programs.register(home, telling),
        error_limit=config.automations.circuit_errors,
        spoken={},
    )
    happenings = Happenings(home, answers, until)
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
