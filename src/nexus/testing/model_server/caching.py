"""Prompt caching computed from the prefixes that the server has seen, by each provider's rules.

Anthropic: the client marks up to four cache points. A point reads the longest stored prefix that ends at
it or at one of the 19 blocks before it, and stores the prefix that ends at it. OpenAI: every prompt
is stored and read in steps of 128 tokens, from 1,024 tokens on.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nexus.testing.model_server.record import Usage
from nexus.testing.model_server.request import BYTES_PER_TOKEN, Lifetime, Prompt, tokens_in

MAX_POINTS = 4
LIFETIMES: dict[Lifetime, timedelta] = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}


@dataclass(frozen=True, kw_only=True)
class Caching:
    """The sizes that the cache works with. The Anthropic minimum is small here; theirs is 1,024 and more."""

    minimum_tokens: int = 16
    lookback_blocks: int = 20
    automatic_minimum_tokens: int = 1024
    automatic_step_tokens: int = 128
    automatic_writes: bool = False
    """Whether the automatic cache reports and bills what it writes, as OpenAI's newer models do."""
    automatic_lifetime: timedelta = timedelta(minutes=10)


DEFAULT_CACHING = Caching()


@dataclass(frozen=True)
class Prefix:
    """A prefix of a prompt: the digest that stands for its bytes, and its length."""

    digest: bytes
    tokens: int


@dataclass(frozen=True)
class Accounting:
    """The input side of an answer's usage, and the prefixes to store once the answer begins."""

    usage: Usage
    stores: tuple[tuple[bytes, timedelta], ...] = ()
    renews: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A stored prefix: each use renews it for its whole lifetime."""

    lifetime: timedelta
    expires_at: datetime


@dataclass
class PrefixStore:
    """The prefixes seen so far."""

    _entries: dict[bytes, Entry] = field(default_factory=dict[bytes, Entry])

    def holds(self, digest: bytes, moment: datetime) -> bool:
        entry = self._entries.get(digest)
        return entry is not None and entry.expires_at > moment

    def keep(self, accounting: Accounting, moment: datetime) -> None:
        """Store what an answer wrote and renew what it read."""
        for digest in accounting.renews:
            lifetime = self._entries[digest].lifetime
            self._entries[digest] = Entry(lifetime, moment + lifetime)
        for digest, lifetime in accounting.stores:
            self._entries[digest] = Entry(lifetime, moment + lifetime)

    def clear(self) -> None:
        self._entries.clear()


def account_by_points(
    store: PrefixStore, model: str, prompt: Prompt, sizes: Caching, moment: datetime
) -> Accounting:
    """Anthropic's rules: the client's cache points decide what is read and written."""
    prefixes = list(_block_prefixes(model, prompt))
    points = [index for index, segment in enumerate(prompt.segments) if segment.cache]
    read = _deepest_stored(store, prefixes, points, sizes, moment)
    read_tokens = prefixes[read].tokens if read is not None else 0
    writes = [
        index
        for index in points
        if (read is None or index > read) and prefixes[index].tokens >= sizes.minimum_tokens
    ]
    written = prefixes[writes[-1]].tokens if writes else read_tokens
    hour = [prefixes[index].tokens for index in writes if prompt.segments[index].cache == "1h"]
    usage = Usage(
        input_tokens=prompt.tokens - written,
        cache_read_tokens=read_tokens,
        cache_write_tokens=written - read_tokens,
        cache_write_1h_tokens=(hour[-1] - read_tokens) if hour else 0,
    )
    stores = tuple(
        (prefixes[index].digest, LIFETIMES[prompt.segments[index].cache or "5m"]) for index in writes
    )
    used = points if read is None else [*points, read]
    renews = tuple(prefixes[index].digest for index in used if store.holds(prefixes[index].digest, moment))
    return Accounting(usage, stores, renews)


def account_automatically(
    store: PrefixStore, model: str, prompt: Prompt, sizes: Caching, moment: datetime
) -> Accounting:
    """OpenAI's rules: every prompt is stored, and the longest stored prefix in whole steps is read."""
    prefixes = list(_step_prefixes(model, prompt, sizes))
    read_tokens = 0
    for prefix in prefixes:
        if not store.holds(prefix.digest, moment):
            break
        read_tokens = prefix.tokens
    stored_tokens = prefixes[-1].tokens if prefixes else 0
    write_tokens = stored_tokens - read_tokens if sizes.automatic_writes else 0
    usage = Usage(
        input_tokens=prompt.tokens - read_tokens - write_tokens,
        cache_read_tokens=read_tokens,
        cache_write_tokens=write_tokens,
    )
    return Accounting(usage, tuple((prefix.digest, sizes.automatic_lifetime) for prefix in prefixes))


def _deepest_stored(
    store: PrefixStore, prefixes: Sequence[Prefix], points: Sequence[int], sizes: Caching, moment: datetime
) -> int | None:
    for point in reversed(points):
        for index in range(point, max(-1, point - sizes.lookback_blocks), -1):
            if store.holds(prefixes[index].digest, moment):
                return index
    return None


def _block_prefixes(model: str, prompt: Prompt) -> Iterator[Prefix]:
    digest = hashlib.sha256(b"points:" + model.encode())
    length_bytes = 0
    in_messages = False
    for segment in prompt.segments:
        if segment.level == "messages" and not in_messages:
            in_messages = True
            digest.update(prompt.settings)
        digest.update(segment.data)
        length_bytes += len(segment.data)
        yield Prefix(digest.digest(), tokens_in(length_bytes))


def _step_prefixes(model: str, prompt: Prompt, sizes: Caching) -> Iterator[Prefix]:
    data = prompt.data
    digest = hashlib.sha256(b"automatic:" + model.encode())
    hashed = 0
    for tokens in range(
        sizes.automatic_minimum_tokens, len(data) // BYTES_PER_TOKEN + 1, sizes.automatic_step_tokens
    ):
        digest.update(data[hashed : tokens * BYTES_PER_TOKEN])
        hashed = tokens * BYTES_PER_TOKEN
        yield Prefix(digest.digest(), tokens)
