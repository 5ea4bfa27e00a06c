"""Asks a life's questions, each in a new session of the home as the sessions left it.

A question changes a home: it is recorded, and the next one could find it. So each is asked of a copy.
"""

import json
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

from nexus import clock
from nexus.app import App
from nexus.broker.agent.models import Models
from nexus.broker.agent.trial import ask_once
from nexus.config import Config
from nexus.engine.errors import EndedError
from nexus.errors import NexusError
from nexus.evaluation.life import Life, Row
from nexus.evaluation.playback import wait_until_settled
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
    copied.create_files()
    # Nobody asks a second question, so nothing is to be remembered of this one.
    asked = replace(config, models=replace(config.models, writer=("none",)))
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
    await wait_until_settled(app)
    spent = await app.ledgers.runtime.read(usage.of_root, root_request_id=receipt.request_id)
    duration_ms = (time.monotonic() - started) * 1000
    return Answer(id=id_, text=said, error=error, sessions=sessions, duration_ms=duration_ms, spent=spent)


_NUMBERS: Final = re.compile(r"\[[\d,\s]*\]")
_VERDICT: Final = re.compile(r"\b(yes|no)\b", re.IGNORECASE)

_NOTES: Final = """\
Below are the notes that an assistant took about {owner}, and numbered statements. Which of the statements \
do the notes state? A statement counts if the notes say the same thing in other words, in another language, \
or split over several notes. It doesn't count if a detail (a name, a number, a date, a negation) differs or \
is missing. "The owner", "the user" and "I" mean {owner}.

Notes:
{notes}

Statements:
{statements}

Answer with a JSON list of the numbers of the statements that the notes state, such as [1, 3], or []."""

_ANSWER: Final = """\
{owner} asked an assistant a question. Is the answer right?

Question: {question}
What is known, which a right answer agrees with: {known}
{outdated}Answer: {answer}

An answer is right if it gives what the question asks for. It may leave out other details, and may say more \
as long as nothing contradicts what is known. Answer with one word: yes or no."""

_DECLINED: Final = """\
{owner} asked an assistant something that the assistant was never told.

Question: {question}
Answer: {answer}

Does the answer say that it doesn't know, without claiming a made-up answer? Answer with one word: yes or \
no."""


@dataclass
class Judge:
    """One model, asked one thing at a time: `async with Judge.of(config, "provider/model") as judge:`."""

    models: Models
    name: str
    owner: str = ""
    spent: Totals = field(default_factory=Totals)

    @classmethod
    def of(cls, config: Config, name: str) -> "Judge":
        return cls(Models(config), name)

    async def __aenter__(self) -> Self:
        await self.models.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.models.close()

    async def find_stated(self, notes: Sequence[str], statements: Sequence[str]) -> list[bool]:
        """Return which of the statements some notes state."""
        if not notes or not statements:
            return [False] * len(statements)
        answer = await self._ask(
            _NOTES.format(
                owner=self.owner,
                notes="\n".join(f"- {note}" for note in notes),
                statements="\n".join(f"{number}. {text}" for number, text in enumerate(statements, start=1)),
            )
        )
        lists = _NUMBERS.findall(answer)
        chosen = set(cast("list[int]", json.loads(lists[-1]))) if lists else set[int]()
        return [number in chosen for number in range(1, len(statements) + 1)]

    async def is_right(self, question: str, known: str, outdated: str, answer: str) -> bool:
        """Whether an answer agrees with what is known, and not with what was true before."""
        before = f"What was true before, and is wrong now: {outdated}\n" if outdated else ""
        return await self._yes(
            _ANSWER.format(owner=self.owner, question=question, known=known, outdated=before, answer=answer)
        )

    async def declines(self, question: str, answer: str) -> bool:
        """Whether an answer says that nothing is known."""
        return await self._yes(_DECLINED.format(owner=self.owner, question=question, answer=answer))

    async def _yes(self, question: str) -> bool:
        verdicts = _VERDICT.findall(await self._ask(question))
        return bool(verdicts) and verdicts[-1].lower() == "yes"

    async def _ask(self, question: str) -> str:
        answer, bill = await ask_once(self.models, self.name, question)
        self.spent += Totals(
            calls=1,
            input_tokens=bill.input_tokens,
            cache_read_tokens=bill.cache_read_tokens,
            cache_write_tokens=bill.cache_write_tokens,
            output_tokens=bill.output_tokens,
            cost_microusd=bill.cost_microusd or 0,
            unpriced_calls=int(bill.cost_microusd is None),
        )
        return answer
