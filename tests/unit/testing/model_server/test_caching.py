"""Cached tokens are computed from prefixes that were seen, by each provider's rules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI

from nexus.testing import Caching, ModelServer, Prompt, Usage, failures, shared_prefix_tokens, tokens_in
from nexus.testing.model_server.caching import PrefixStore, account_automatically, account_by_points
from nexus.testing.model_server.request import Segment

NOON = datetime(2026, 2, 13, 12, tzinfo=UTC)
SIZES = Caching(minimum_tokens=0)


def _blocks(text: str, *points: int, lifetime: Any = "5m") -> Prompt:
    """A prompt with one block of four bytes for each letter, and cache points after the given blocks."""
    return Prompt(
        tuple(
            Segment("messages", letter.encode() * 4, lifetime if index in points else None)
            for index, letter in enumerate(text)
        )
    )


class Cache:
    """A store with a clock, used as the server uses it."""

    def __init__(self, sizes: Caching = SIZES) -> None:
        self.store = PrefixStore()
        self.sizes = sizes
        self.moment = NOON

    def ask(self, prompt: Prompt, model: str = "m") -> tuple[int, int, int]:
        """Fresh, read and written tokens."""
        found = account_by_points(self.store, model, prompt, self.sizes, self.moment)
        self.store.keep(found, self.moment)
        usage = found.usage
        return usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def test_without_points_nothing_is_written_or_read() -> None:
    cache = Cache()
    assert cache.ask(_blocks("abc")) == (3, 0, 0)
    assert cache.ask(_blocks("abc")) == (3, 0, 0)


def test_a_point_writes_first_and_reads_then() -> None:
    cache = Cache()
    assert cache.ask(_blocks("abcd", 2)) == (1, 0, 3)
    assert cache.ask(_blocks("abcd", 2)) == (1, 3, 0)


def test_a_point_that_moves_on_reads_the_old_prefix_and_writes_the_new_part() -> None:
    cache = Cache()
    cache.ask(_blocks("abc", 2))
    assert cache.ask(_blocks("abcdef", 5)) == (0, 3, 3)
    assert cache.ask(_blocks("abcdefg", 6)) == (0, 6, 1)


def test_a_changed_block_loses_everything_behind_it() -> None:
    cache = Cache()
    cache.ask(_blocks("abcd", 1, 3))
    assert cache.ask(_blocks("abXd", 1, 3)) == (0, 2, 2)
    assert cache.ask(_blocks("Xbcd", 1, 3)) == (0, 0, 4)


def test_only_prefixes_that_ended_at_a_point_are_stored() -> None:
    cache = Cache()
    cache.ask(_blocks("abcd", 3))
    assert cache.ask(_blocks("abcX", 3)) == (0, 0, 4)


def test_a_point_looks_back_over_twenty_blocks_and_no_further() -> None:
    near, far = Cache(), Cache()
    near.ask(_blocks("a", 0))
    assert near.ask(_blocks("a" + "b" * 19, 19)) == (0, 1, 19)
    far.ask(_blocks("a", 0))
    assert far.ask(_blocks("a" + "b" * 20, 20)) == (0, 0, 21)


def test_a_prefix_below_the_minimum_is_not_stored() -> None:
    cache = Cache(Caching(minimum_tokens=3))
    assert cache.ask(_blocks("ab", 1)) == (2, 0, 0)
    assert cache.ask(_blocks("abc", 2)) == (0, 0, 3)
    assert cache.ask(_blocks("abcd", 2)) == (1, 3, 0)


def test_models_do_not_share_prefixes() -> None:
    cache = Cache()
    cache.ask(_blocks("abc", 2), "small")
    assert cache.ask(_blocks("abc", 2), "large") == (0, 0, 3)


def test_each_use_renews_a_prefix_for_its_lifetime() -> None:
    cache = Cache()
    cache.ask(_blocks("abc", 2))
    for _ in range(3):
        cache.moment += timedelta(minutes=4)
        assert cache.ask(_blocks("abc", 2)) == (0, 3, 0)
    cache.moment += timedelta(minutes=5)
    assert cache.ask(_blocks("abc", 2)) == (0, 0, 3)


def test_an_hour_is_kept_for_an_hour_and_billed_apart() -> None:
    prompt = Prompt(
        (
            Segment("tools", b"tool" * 2, "1h"),
            Segment("messages", b"text" * 3, "5m"),
            Segment("messages", b"more"),
        )
    )
    store = PrefixStore()
    first = account_by_points(store, "m", prompt, SIZES, NOON)
    store.keep(first, NOON)
    assert first.usage == Usage(input_tokens=1, cache_write_tokens=5, cache_write_1h_tokens=2)
    later = account_by_points(store, "m", prompt, SIZES, NOON + timedelta(minutes=30))
    assert later.usage == Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3)


def test_settings_invalidate_messages_but_not_tools_and_system() -> None:
    segments = (Segment("tools", b"tool", "5m"), Segment("messages", b"text", "5m"))
    store = PrefixStore()
    store.keep(account_by_points(store, "m", Prompt(segments), SIZES, NOON), NOON)
    forced = account_by_points(store, "m", Prompt(segments, b"tool_choice"), SIZES, NOON)
    assert forced.usage == Usage(cache_read_tokens=1, cache_write_tokens=1)


def _text(tokens: int) -> Prompt:
    return Prompt((Segment("messages", b"".join(b"%4d" % n for n in range(tokens))),))


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [(1000, 1000, 0), (1024, 1024, 1024), (1200, 1200, 1152), (1200, 2000, 1152), (2000, 1200, 1152)],
)
def test_the_automatic_cache_reads_whole_steps_from_1024_tokens_on(
    first: int, second: int, read: int
) -> None:
    store = PrefixStore()
    store.keep(account_automatically(store, "m", _text(first), Caching(), NOON), NOON)
    found = account_automatically(store, "m", _text(second), Caching(), NOON)
    assert found.usage == Usage(input_tokens=second - read, cache_read_tokens=read)


def test_the_automatic_cache_can_bill_what_it_writes() -> None:
    store = PrefixStore()
    sizes = Caching(automatic_writes=True)
    store.keep(account_automatically(store, "m", _text(1200), sizes, NOON), NOON)
    found = account_automatically(store, "m", _text(1500), sizes, NOON)
    assert found.usage == Usage(input_tokens=92, cache_read_tokens=1152, cache_write_tokens=256)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.text("ab", min_size=1, max_size=30), st.sets(st.integers(0, 29), max_size=4)), max_size=8
    )
)
def test_fresh_read_and_written_tokens_always_add_up_to_the_prompt(
    asked: list[tuple[str, set[int]]],
) -> None:
    cache = Cache()
    seen: list[Prompt] = []
    for text, points in asked:
        prompt = _blocks(text, *points)
        fresh, read, written = cache.ask(prompt)
        assert min(fresh, read, written) >= 0
        assert fresh + read + written == prompt.tokens
        assert read <= max((shared_prefix_tokens(earlier, prompt) for earlier in seen), default=0)
        seen.append(prompt)


@settings(deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=20), st.binary(max_size=20))
def test_the_shared_prefix_is_counted_in_whole_tokens(prefix: bytes, one: bytes, other: bytes) -> None:
    earlier, later = (Prompt((Segment("messages", prefix + rest),)) for rest in (one, other))
    shared = shared_prefix_tokens(earlier, later)
    assert len(prefix) // 4 <= shared <= later.tokens
    assert shared_prefix_tokens(later, later) == later.tokens == tokens_in(len(prefix + other))


# Over HTTP

SYSTEM = "You are a patient assistant who answers in full sentences. " * 4


async def _ask(claude: AsyncAnthropic, *, point: Any = None, **more: Any) -> Any:
    block: dict[str, Any] = {"type": "text", "text": SYSTEM} | ({"cache_control": point} if point else {})
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], "system": [block], **more}
    create: Any = claude.messages.create
    return (await create(model="m", max_tokens=9, **asked)).usage


async def test_marked_and_unmarked_prompts_are_the_same_prompt(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.always("Hi")
    point = {"type": "ephemeral"}
    wrote = await _ask(claude, point=point)
    read = await _ask(claude, point=point)
    plain = await _ask(claude)
    assert wrote.cache_creation_input_tokens == read.cache_read_input_tokens > 0
    assert wrote.cache_creation.ephemeral_5m_input_tokens == wrote.cache_creation_input_tokens
    assert wrote.input_tokens == read.input_tokens
    assert plain.input_tokens == wrote.input_tokens + wrote.cache_creation_input_tokens
    assert plain.cache_read_input_tokens == 0


async def test_a_string_and_a_single_text_block_share_a_prefix(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.always("Hi")
    point = {"type": "ephemeral"}
    await _ask(claude, messages=[{"role": "user", "content": "Hello"}], cache_control=point)
    block = {"type": "text", "text": "Hello"}
    usage = await _ask(claude, messages=[{"role": "user", "content": [block]}], cache_control=point)
    assert usage.cache_creation_input_tokens == 0
    assert usage.cache_read_input_tokens == server.requests[1].prompt.tokens


async def test_an_answer_that_fails_stores_nothing(server: ModelServer, claude: AsyncAnthropic) -> None:
    server.script(failures.overloaded(), "Hi")
    point = {"type": "ephemeral"}
    with pytest.raises(Exception, match="Overloaded"):
        await _ask(claude, point=point)
    assert (await _ask(claude, point=point)).cache_read_input_tokens == 0


async def test_the_openai_format_reports_cached_tokens(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.always("Hi")
    usages: list[Any] = []
    for question in ("One?", "Two?"):
        answer = await gpt.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": SYSTEM * 30}, {"role": "user", "content": question}],
        )
        usages.append(answer.usage)
    shared = shared_prefix_tokens(server.requests[0].prompt, server.requests[1].prompt)
    assert usages[0].prompt_tokens_details.cached_tokens == 0
    assert usages[1].prompt_tokens_details.cached_tokens == shared // 128 * 128 >= 1024
    assert usages[1].prompt_tokens == server.requests[1].prompt.tokens
