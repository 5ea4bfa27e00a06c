"""A model as judge: whether notes state something, and whether an answer is right."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, cast

from nexus.broker.agent.models import Models
from nexus.broker.agent.trial import asked
from nexus.config import Config
from nexus.runs import Totals

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

    async def stated(self, notes: Sequence[str], statements: Sequence[str]) -> list[bool]:
        """Which of the statements some notes state."""
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
        answer, bill = await asked(self.models, self.name, question)
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
