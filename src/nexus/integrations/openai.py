"""A memory for OpenAI's client: `client = wrap_openai(OpenAI(), memory, scope="user:7")`.

What the user says is answered with the memories that help, and both are remembered. Chat completions and
responses, sync and async, whole and streamed, keep their arguments and results.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, Self, TypeVar
from uuid import uuid4

from openai import AsyncOpenAI, OpenAI

from nexus.integrations.prompts import find_user, format_memories, prepend, read_content
from nexus.library.blocking import Memory
from nexus.library.items import Hit
from nexus.library.memory import AsyncMemory

_log = logging.getLogger(__name__)
Client = TypeVar("Client", OpenAI, AsyncOpenAI)


def wrap_openai(
    client: Client,
    memory: Memory | AsyncMemory,
    *,
    scope: str | None = None,
    thread: str | None = None,
    limit: int = 5,
) -> Client:
    """Return a client with a memory: a `Memory` if it is sync, an `AsyncMemory` if it is async.

    The client itself stays without, so one may be wrapped for each user: `scope` keeps them apart. `thread`
    names the conversation. A memory that fails is logged, and the model answers without it. What
    `with_options` of the result returns has no memory.
    """
    if isinstance(client, AsyncOpenAI) is not isinstance(memory, AsyncMemory):
        raise TypeError("An AsyncOpenAI needs an AsyncMemory, and an OpenAI a Memory")
    client = client.copy()
    search = partial(memory.search, scope=scope, limit=limit)
    record = partial(memory.add_messages, scope=scope, thread=thread or f"openai:{uuid4()}")
    wrap = _wrap_async if isinstance(memory, AsyncMemory) else _wrap
    chat, responses = client.chat.completions, client.responses
    for resource, key, part in ((chat, "messages", "text"), (responses, "input", "input_text")):
        for name in ("create", "parse"):
            setattr(resource, name, wrap(getattr(resource, name), key, part, search, record))
    return client


def _wrap(call: Callable[..., Any], key: str, part: str, search: Any, record: Any) -> Callable[..., Any]:
    @wraps(call)
    def run(**given: Any) -> Any:
        exchange = _Exchange(given, key, part)
        with _log_failure():
            exchange.inject(search(exchange.question) if exchange.question else [])
        answer = call(**exchange.given)
        if given.get("stream"):
            return _Stream(answer, exchange, record)
        with _log_failure():
            record(exchange.list_messages(answer))
        return answer

    return run


def _wrap_async(
    call: Callable[..., Any], key: str, part: str, search: Any, record: Any
) -> Callable[..., Any]:
    @wraps(call)
    async def run(**given: Any) -> Any:
        exchange = _Exchange(given, key, part)
        with _log_failure():
            exchange.inject(await search(exchange.question) if exchange.question else [])
        answer = await call(**exchange.given)
        if given.get("stream"):
            return _AsyncStream(answer, exchange, record)
        with _log_failure():
            await record(exchange.list_messages(answer))
        return answer

    return run


class _Exchange:
    """One call: what is asked, and what is answered."""

    def __init__(self, given: dict[str, Any], key: str, part: str) -> None:
        self.given = given
        self._key, self._part = key, part
        asked = given.get(key)
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else list(asked or ())
        self._messages: list[Any] = messages
        self._place = find_user(messages)
        self.question = "" if self._place is None else read_content(messages[self._place]["content"])
        self._text = ""

    def inject(self, hits: list[Hit]) -> None:
        """Put what helps in front of the user's last message, in this call alone."""
        said = "\n".join(read_content(each.get("content")) for each in self._messages)
        memories = format_memories(hits, said)
        if memories and self._place is not None:
            messages = list(self._messages)
            asked = messages[self._place]
            messages[self._place] = {**asked, "content": prepend(memories, asked["content"], part=self._part)}
            self.given = {**self.given, self._key: messages}

    def note_event(self, event: Any) -> None:
        """Note what an event of a stream adds to the answer."""
        for choice in getattr(event, "choices", None) or ():
            self._text += getattr(choice.delta, "content", None) or ""
        if getattr(event, "type", "") == "response.output_text.delta":
            self._text += event.delta

    def list_messages(self, answer: Any = None) -> list[dict[str, Any]]:
        """List what is to be remembered. The user's message is new only if it is the last one."""
        choices = getattr(answer, "choices", None)
        text = choices[0].message.content if choices else getattr(answer, "output_text", None)
        is_new = self._place is not None and self._place == len(self._messages) - 1
        exchange = [("user", self.question if is_new else ""), ("assistant", text or self._text)]
        return [{"role": role, "content": content} for role, content in exchange if content]


class _Following:
    """A stream that is remembered when it ends or is closed. Everything else is the stream's own."""

    def __init__(self, stream: Any, exchange: _Exchange, record: Any) -> None:
        self._stream, self._record = stream, record
        self._exchange: _Exchange | None = exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _note(self, event: Any) -> Any:
        if self._exchange:
            self._exchange.note_event(event)
        return event

    def _take(self) -> list[dict[str, Any]]:
        """Take what is to be remembered, once."""
        exchange, self._exchange = self._exchange, None
        return exchange.list_messages() if exchange else []


class _Stream(_Following):
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._note(next(self._stream))
        except StopIteration:
            self._finish()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._finish()

    def _finish(self) -> None:
        with _log_failure():
            self._record(self._take())


class _AsyncStream(_Following):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._note(await anext(self._stream))
        except StopAsyncIteration:
            await self._finish()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._stream.close()
        await self._finish()

    async def _finish(self) -> None:
        with _log_failure():
            await self._record(self._take())


@contextmanager
def _log_failure() -> Generator[None]:
    try:
        yield
    except Exception:
        _log.exception("the memory failed, and the model goes on without it")
