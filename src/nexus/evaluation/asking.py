"""Asks a life's questions, each in a new session of the home as the sessions left it.

A question changes a home: it is recorded, and the next one could find it. So each is asked of a copy.
"""

import shutil
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from nexus import clock
from nexus.app import App
from nexus.config import Config
from nexus.engine.errors import EndedError
from nexus.errors import NexusError
from nexus.evaluation.life import Life, Row
from nexus.evaluation.playing import settled
from nexus.home import Home
from nexus.ledgers.runtime import usage
from nexus.runs import Totals


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was answered to one question."""

    id: str
    text: str
    error: str = ""
    """Why there is no answer."""
    sessions: int = 0
    """How many sessions the home had seen."""
    duration_ms: float = 0.0
    spent: Totals = field(default_factory=Totals)

    def to_json(self) -> Row:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Row) -> "Answer":
        kept: Row = {**row, "spent": Totals(**row["spent"])}
        return cls(**kept)


async def ask(life: Life, question: Row, home: Home, config: Config, scratch: Path) -> Answer:
    """Ask one question at the life's time, and leave the home as it is."""
    copied = Home(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(home.root, scratch, ignore=shutil.ignore_patterns("run", "logs"))
    copied.create()
    # Nobody asks a second question, so nothing is to be remembered of this one.
    asked = replace(config, models=replace(config.models, writer=()))
    started = time.monotonic()
    try:
        with clock.starting_at(life.asked_at):
            async with App(copied, asked) as app:
                return await _answer(
                    app, str(question["id"]), str(question["text"]), len(life.sessions), started
                )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


async def _answer(app: App, id_: str, text: str, sessions: int, started: float) -> Answer:
    receipt = await app.receive(text, session_label=f"question-{id_}")
    said = error = ""
    try:
        said = (await receipt.run.result()).response.content
    except (NexusError, EndedError) as failure:
        error = str(failure) or type(failure).__name__
    await settled(app)
    spent = await app.ledgers.runtime.read(partial(usage.of_root, root_request_id=receipt.request_id))
    duration_ms = (time.monotonic() - started) * 1000
    return Answer(id=id_, text=said, error=error, sessions=sessions, duration_ms=duration_ms, spent=spent)
