"""A request as it arrived: its exact bytes, and what scripts and tests ask about it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote

Json = dict[str, Any]
WireName = Literal["anthropic", "openai", "google", "bedrock"]

SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
HIDDEN = "(hidden)"


Level = Literal["tools", "system", "messages"]
Lifetime = Literal["5m", "1h"]
BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Segment:
    """One block of the prompt: a tool, a piece of the system prompt or of a message."""

    level: Level
    data: bytes
    cache: Lifetime | None = None
    """Set where the client put a cache point after this block."""


@dataclass(frozen=True)
class Prompt:
    """Tools, then system, then messages; cache points are marks on segments and no part of the bytes."""

    segments: tuple[Segment, ...] = ()
    settings: bytes = b""
    """What invalidates cached messages without being part of the prompt, such as `tool_choice`."""

    @property
    def data(self) -> bytes:
        return b"".join(segment.data for segment in self.segments)

    @property
    def tokens(self) -> int:
        return tokens_in(sum(len(segment.data) for segment in self.segments))


def shared_prefix_tokens(earlier: Prompt, later: Prompt) -> int:
    """How many whole tokens of `later` lie inside a prefix that is byte-identical in `earlier`."""
    pairs = zip(earlier.data, later.data, strict=False)
    shorter = min(len(earlier.data), len(later.data))
    shared_bytes = next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)
    return later.tokens if shared_bytes == len(later.data) else shared_bytes // BYTES_PER_TOKEN


def tokens_in(length_bytes: int) -> int:
    """How many tokens a text of that many bytes has; a started token counts as one."""
    return -(-length_bytes // BYTES_PER_TOKEN)


def canonical(value: object) -> bytes:
    """The bytes that are counted and compared: compact JSON in UTF-8, keys in the order they were sent."""
    # A lone surrogate is legal in JSON text, so it must not stop the count.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class KeptHeaders(Mapping[str, str]):
    """Request headers by lower-case name. Keys and tokens can be read but are not printed."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in headers.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def printable(self) -> dict[str, str]:
        """The headers with secrets replaced."""
        return {name: HIDDEN if name in SECRET_HEADERS else value for name, value in self._values.items()}

    def __repr__(self) -> str:
        return f"KeptHeaders({self.printable()!r})"


def objects(body: Json, name: str) -> list[Json]:
    """The list of objects under that name; empty when there is none."""
    return body.get(name) or []


@dataclass(frozen=True)
class View:
    """The parts of a request that both wire formats have, under one name each."""

    system: str = ""
    last_user: str = ""
    """The text of the last user message that has text; a message of tool results alone has none."""
    tool_results: tuple[str, ...] = ()
    """The results of the last round of tool calls."""
    tool_names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One request to the model server."""

    number: int
    """Counted from 1 over everything that the server was asked."""
    at: datetime
    wire: WireName
    path: str
    headers: KeptHeaders
    body: bytes = field(repr=False)
    """The exact bytes."""
    json: Json = field(repr=False)
    """The parsed body; empty when it was not a JSON object."""
    view: View = field(default=View(), repr=False)
    prompt: Prompt = field(default=Prompt(), repr=False)
    """The canonical bytes that caching compares; see `shared_prefix_tokens`."""

    @property
    def model(self) -> str:
        if self.wire == "bedrock":
            return unquote(self.path.removeprefix("/model/").partition("/")[0])
        if self.wire == "google":
            return self.path.rpartition("/models/")[2].partition(":")[0]
        return str(self.json.get("model", ""))

    @property
    def stream(self) -> bool:
        return self.json.get("stream") is True or ":stream" in self.path or self.path.endswith("-stream")

    @property
    def system(self) -> str:
        return self.view.system

    @property
    def last_user(self) -> str:
        return self.view.last_user

    @property
    def tool_results(self) -> tuple[str, ...]:
        return self.view.tool_results

    @property
    def tool_names(self) -> tuple[str, ...]:
        return self.view.tool_names

    @property
    def key(self) -> str | None:
        """The key or bearer token that was presented."""
        bearer = self.headers.get("authorization", "")
        token = bearer[7:] if bearer.lower().startswith("bearer ") else None
        return self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or token or None
