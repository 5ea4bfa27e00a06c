"""A memory for OpenAI's client: `client = wrap_openai(OpenAI(), memory, scope="user:7")`.

What the user says is answered with the memories that help, and both are remembered. Chat completions and
responses, sync and async, keep their arguments and results. A stream is remembered when it ends or is closed.
"""

import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, TypeVar
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
    for name in ("create", "parse"):
        chat, responses = client.chat.completions, client.responses
        setattr(chat, name, wrap(getattr(chat, name), "messages", "text", search, record))
        setattr(responses, name, wrap(getattr(responses, name), "input", "input_text", search, record))
    return client


def _wrap(call: Callable[..., Any], key: str, part: str, search: Any, record: Any) -> Callable[..., Any]:
    @wraps(call)
    def run(**given: Any) -> Any:
        exchange = _Exchange(given, key, part)
        with _log_failure():
            exchange.inject(search(exchange.question) if exchange.question else [])
        answer = call(**exchange.given)

        def finish(end: Callable[[], None] | None = None) -> None:
            if end:
                end()
            with _log_failure():
                record(exchange.take_messages(answer))

        def follow(events: Iterator[Any]) -> Iterator[Any]:
            yield from map(exchange.note_event, events)
            finish()

        # A raw response is passed on: only whoever parses it reads the stream.
        if given.get("stream") and hasattr(answer, "_iterator"):
            answer._iterator = follow(answer._iterator)  # noqa: SLF001 - a stream has no other place to listen
            answer.close = partial(finish, answer.close)
        else:
            finish()
        return answer

    return run


def _wrap_async(call: Any, key: str, part: str, search: Any, record: Any) -> Callable[..., Any]:
    @wraps(call)
    async def run(**given: Any) -> Any:
        exchange = _Exchange(given, key, part)
        with _log_failure():
            exchange.inject(await search(exchange.question) if exchange.question else [])
        answer = await call(**exchange.given)

        async def finish(end: Callable[[], Any] | None = None) -> None:
            if end:
                await end()
            with _log_failure():
                await record(exchange.take_messages(answer))

        async def follow(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for event in events:
                yield exchange.note_event(event)
            await finish()

        # A raw response is passed on: only whoever parses it reads the stream.
        if given.get("stream") and hasattr(answer, "_iterator"):
            answer._iterator = follow(answer._iterator)  # noqa: SLF001 - a stream has no other place to listen
            answer.close = partial(finish, answer.close)
        else:
            await finish()
        return answer

    return run


class _Exchange:
    """One call: what is asked, and what is answered."""

    def __init__(self, given: dict[str, Any], key: str, part: str) -> None:
        self.given = given
        self._key, self._part = key, part
        asked = given.get(key) or ()
        self._messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else list[Any](asked)
        self._place = find_user(self._messages)
        self.question = "" if self._place is None else read_content(self._messages[self._place]["content"])
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

    def note_event(self, event: Any) -> Any:
        """Note what an event of a stream adds to the answer."""
        for choice in getattr(event, "choices", None) or ():
            self._text += getattr(choice.delta, "content", None) or ""
        if getattr(event, "type", "") == "response.output_text.delta":
            self._text += event.delta
        return event

    def take_messages(self, answer: Any) -> list[dict[str, Any]]:
        """List what is to be remembered, once. The user's message is new only if it is the last one."""
        choices = getattr(answer, "choices", None)
        text = choices[0].message.content if choices else getattr(answer, "output_text", None)
        is_new = self._place is not None and self._place == len(self._messages) - 1
        exchange = [("user", self.question if is_new else ""), ("assistant", text or self._text)]
        self._messages, self._text = [], ""
        return [{"role": role, "content": content} for role, content in exchange if content]


@contextmanager
def _log_failure() -> Generator[None]:
    try:
        yield
    except Exception:
        _log.exception("the memory failed, and the model goes on without it")
