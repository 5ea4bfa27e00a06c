"""An answer that no agent gave, in the hand of whoever asked."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from nexus.answer import Delta, Response, Result, Totals


class Answer(Protocol):
    """What is being answered: by a run, or already."""

    @property
    def id(self) -> str: ...

    async def result(self) -> Result: ...

    def deltas(self) -> AsyncIterator[Delta]: ...

    async def cancel(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a message became: a request, and what answers it."""

    request_id: str
    answer: Answer
    execution_id: str | None = None
    """The run that answers; None where no agent is to."""


class Answered:
    """An automation's answer. It cost no tokens of its own."""

    def __init__(self, request_id: str, text: str) -> None:
        self.id = request_id
        self._text = text

    async def result(self) -> Result:
        response = Response(content=self._text)
        return Result(execution_id="", request_id=self.id, response=response, usage=Totals())

    async def deltas(self) -> AsyncIterator[Delta]:
        for delta in (Delta(kind="begin"), Delta(kind="text", text=self._text), Delta(kind="done")):
            yield delta

    async def cancel(self) -> bool:
        return False
