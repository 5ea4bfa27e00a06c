"""Sending one answer, and noticing when the client goes away before it ends."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from starlette.types import Receive, Scope, Send

from nexus.testing.model_server import plan
from nexus.testing.model_server.failures import Gates
from nexus.testing.model_server.record import NO_USAGE, Answer, Usage
from nexus.testing.model_server.request import tokens_in

CloseConnection = Callable[[Scope], None]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An answer before it is sent."""

    status: int | None
    """None for no answer at all."""
    headers: Mapping[str, str]
    plan: plan.Plan
    delay_ms: int = 0
    usage: Usage = NO_USAGE
    output_bytes: int = 0
    on_begin: Callable[[], None] = field(default=lambda: None)

    def usage_after(self, sent_output_bytes: int) -> Usage:
        """The usage once that much of the output was sent."""
        if sent_output_bytes >= self.output_bytes:
            return self.usage
        output_tokens = min(self.usage.output_tokens, max(1, tokens_in(sent_output_bytes)))
        thinking_tokens = min(self.usage.thinking_tokens, output_tokens)
        return replace(self.usage, output_tokens=output_tokens, thinking_tokens=thinking_tokens)


class Reply:
    """An ASGI response that follows a draft and records how far it came.

    The record is brought up to date before each piece is sent: a client that has read an answer to its
    end always finds it recorded as complete.
    """

    def __init__(self, draft: Draft, answer: Answer, gates: Gates, close: CloseConnection) -> None:
        self._draft = draft
        self._answer = answer
        self._gates = gates
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_wait_disconnect(receive))
        sending = asyncio.create_task(self._follow(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self._answer.outcome = "hung_up"
            elif self._answer.outcome in ("cut", "silent"):
                self._close(scope)
                await gone
        finally:
            await _end(gone)
            await _end(sending)
        if not sending.cancelled():
            sending.result()

    async def _follow(self, send: Send) -> None:
        draft = self._draft
        await asyncio.sleep(draft.delay_ms / 1000)
        if draft.status is not None:
            await self._begin(draft.status, send)
        actions = draft.plan.actions
        output_bytes = 0
        for index, action in enumerate(actions):
            if isinstance(action, plan.Send):
                output_bytes += action.output_bytes
                last = index == len(actions) - 1 and draft.plan.outcome != "cut"
                self._note(action.data, output_bytes, last)
                await send({"type": "http.response.body", "body": action.data, "more_body": not last})
            else:
                await self._pause(action)
        self._answer.outcome = draft.plan.outcome

    async def _begin(self, status: int, send: Send) -> None:
        self._answer.status = status
        self._answer.headers = dict(self._draft.headers)
        self._answer.usage = self._draft.usage_after(0)
        self._draft.on_begin()
        headers = [(name.encode(), value.encode()) for name, value in self._draft.headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})

    def _note(self, data: bytes, output_bytes: int, last: bool) -> None:
        self._answer.sent.extend(data)
        self._answer.usage = self._draft.usage_after(output_bytes)
        if last:
            self._answer.outcome = self._draft.plan.outcome

    async def _pause(self, action: plan.Wait | plan.WaitForGate) -> None:
        if isinstance(action, plan.Wait):
            await asyncio.sleep(action.ms / 1000)
        else:
            await self._gates.get(action.name).wait_open()


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
