"""A request's prompt as the bytes that a provider would read, in the order in which it caches them."""

import json
from dataclasses import dataclass
from typing import Literal

Level = Literal["tools", "system", "messages"]
Lifetime = Literal["5m", "1h"]


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


BYTES_PER_TOKEN = 4


def tokens_in(length_bytes: int) -> int:
    """How many tokens a text of that many bytes has; a started token counts as one."""
    return -(-length_bytes // BYTES_PER_TOKEN)


def canonical(value: object) -> bytes:
    """The bytes that are counted and compared: compact JSON in UTF-8, keys in the order they were sent."""
    # A lone surrogate is legal in JSON text, so it must not stop the count.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
