"""A model that says what a transcript says: the assistant's lines of a conversation that is played again.

It is a server on loopback in the OpenAI chat format, so the conversation passes through the same broker,
client and bookkeeping as with any other model. Only what the memory does afterwards is evaluated.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nexus import asgi
from nexus.config import ProviderConfig
from nexus.memory.languages import DEFAULT
from nexus.memory.recall.words import function_words, tokens

PROVIDER: Final = "transcript"
MODEL: Final = f"{PROVIDER}/recorded"
_KEEP_ALIVE_S: Final = 75
_GRACE_S: Final = 1.0
_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@dataclass
class Transcript:
    """The server, and the line that it says next."""

    url: str = ""
    reply: str = ""

    @property
    def provider(self) -> ProviderConfig:
        return ProviderConfig(kind="openai", base_url=self.url)

    async def answer(self, request: Request) -> Response:
        """Say the line."""
        body = await request.json()
        if body.get("stream"):
            return StreamingResponse(_events(self.reply), media_type="text/event-stream")
        message = {"role": "assistant", "content": self.reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({**_envelope("chat.completion"), "choices": [choice], "usage": _USAGE})


@asynccontextmanager
async def transcript() -> AsyncGenerator[Transcript]:
    """Serve a transcript until the block ends."""
    made = Transcript()
    app = Starlette(routes=[Route("/v1/chat/completions", made.answer, methods=["POST"])])
    socket = asgi.open_socket("127.0.0.1", 0, backlog=16)
    server = asgi.build_server(app, keep_alive_s=_KEEP_ALIVE_S)
    await server.startup(sockets=[socket])
    made.url = f"http://127.0.0.1:{socket.getsockname()[1]}/v1"
    try:
        yield made
    finally:
        await asgi.stop(server, grace_s=_GRACE_S, cut_s=_GRACE_S)
        socket.close()


def _events(text: str) -> Iterator[str]:
    deltas: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", "content": text}, "finish_reason": None},
        {"delta": {}, "finish_reason": "stop"},
    ]
    for delta in deltas:
        yield _event({**_envelope("chat.completion.chunk"), "choices": [{"index": 0, **delta}]})
    yield _event({**_envelope("chat.completion.chunk"), "choices": [], "usage": _USAGE})
    yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "recorded", "object": kind, "created": 0, "model": "recorded"}


# Calibrated on the lives in bench/lives/train: see tests/unit/evaluation/test_matching.py.
_STATED: Final = 0.6
_STATED_TOGETHER: Final = 0.8
_MOST_TOGETHER: Final = 3
_CONTRARY: Final = 0.85
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)(?:T\S+)?")
_PHONE: Final = re.compile(r"\+?\d[\d\s()/-]{5,}\d")
_PHONE_DIGITS: Final = 7
# What people and memories call the owner, besides their name.
_OWNER_WORDS: Final = "I me my mine owner user"
_NEGATIONS: Final = re.compile(
    r"\b(?:no|not|never|without|cannot|\w+n't|nicht|nie|kein\w*|ohne|nunca|sin|ni|ne|n'|pas|jamais|sans|não|nem"
    r"|sem)\b",
    re.IGNORECASE,
)
_MONTHS: Final = (
    "January Januar enero janvier janeiro",
    "February Februar febrero février fevereiro",
    "March März marzo mars março",
    "April abril avril",
    "May Mai mayo maio",
    "June Juni junio juin junho",
    "July Juli julio juillet julho",
    "August agosto août",
    "September septiembre septembre setembro",
    "October Oktober octubre octobre outubro",
    "November noviembre novembre novembro",
    "December Dezember diciembre décembre dezembro",
)


@dataclass(frozen=True, slots=True)
class Statement:
    """The words of a text that carry its content."""

    words: frozenset[str]
    numbers: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.words | self.numbers


@dataclass(frozen=True, slots=True)
class Matcher:
    """Compares texts about one owner, whose own name says nothing: most statements are about them."""

    dropped: frozenset[str]

    @classmethod
    def of(cls, owner: str, language: str) -> "Matcher":
        return cls(frozenset(tokens(f"{owner} {_OWNER_WORDS}")) | function_words(DEFAULT, language))

    def read(self, text: str) -> Statement:
        phones = {digits[-_PHONE_DIGITS:] for digits in _phones(text)}
        plain = _ISO_DATE.sub(_written_out, _PHONE.sub(_without_phone, text))
        found = frozenset(tokens(plain)) - self.dropped
        numbers = {word for word in found if any(character.isdigit() for character in word)}
        return Statement(found - numbers, frozenset(number.lstrip("0") or "0" for number in numbers) | phones)

    def said(self, text: str) -> frozenset[str]:
        """The words of a text without its dates and numbers, which may follow from what was said."""
        return self.read(_ISO_DATE.sub(" ", text)).words

    def stating(self, text: str, rows: Sequence[str]) -> list[int]:
        """The places of the rows that state a text, alone or a few together; none where it isn't stated."""
        wanted = self.read(text)
        held = [self.read(row).all & wanted.all for row in rows]
        order = [place for place in range(len(rows)) if held[place]]
        for count in range(1, min(_MOST_TOGETHER, len(order)) + 1):
            chosen = _greedy(order, held, count)
            together = frozenset[str]().union(*(held[place] for place in chosen))
            enough = _STATED if count == 1 else _STATED_TOGETHER
            if share(wanted.all, together) >= enough and wanted.numbers <= together:
                return chosen
        return []

    def is_same(self, one: str, other: str) -> bool:
        """Whether two texts state the same: one of them may say more than the other."""
        first, second = self.read(one), self.read(other)
        more, less = (first, second) if len(first.all) > len(second.all) else (second, first)
        return less.numbers <= more.numbers and share(less.all, more.all) >= _STATED

    def repeats(self, text: str, row: str) -> bool:
        """Whether one row says nearly all of a text, and as little denies it: for what must not be there."""
        wanted, held = self.read(text).all, self.read(row).all
        same_sense = _denies(text) == _denies(row)
        return same_sense and share(wanted, held) >= _CONTRARY


def _denies(text: str) -> bool:
    return bool(_NEGATIONS.search(text.replace("\u2019", "'")))


def share(wanted: frozenset[str], held: frozenset[str]) -> float:
    """How much of what is wanted is held."""
    return len(wanted & held) / len(wanted) if wanted else 0.0


def _greedy(order: Sequence[int], held: Sequence[frozenset[str]], count: int) -> list[int]:
    """So many rows, each the one that adds the most."""
    chosen: list[int] = []
    have = frozenset[str]()
    for _ in range(count):
        best = max((p for p in order if p not in chosen), key=lambda p: len(held[p] - have))
        chosen.append(best)
        have |= held[best]
    return chosen


def _phones(text: str) -> Iterable[str]:
    found = ("".join(filter(str.isdigit, match)) for match in _PHONE.findall(_ISO_DATE.sub(" ", text)))
    return [digits for digits in found if len(digits) >= _PHONE_DIGITS]


def _without_phone(match: re.Match[str]) -> str:
    text = match.group()
    is_phone = not _ISO_DATE.search(text) and len(re.sub(r"\D", "", text)) >= _PHONE_DIGITS
    return " " if is_phone else text


def _written_out(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    months = _MONTHS[int(month) - 1] if 1 <= int(month) <= len(_MONTHS) else month
    return f"{int(day)} {months} {year}"
