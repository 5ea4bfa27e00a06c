"""What one answer used, in tokens, and what that costs."""

from dataclasses import dataclass, fields
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one answer or of many: fresh, read from the cache and written to it are kept apart."""

    input_tokens: int = 0
    """Fresh input: neither read from the cache nor written to it."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that was asked to stay for an hour."""
    output_tokens: int = 0
    thinking_tokens: int = 0
    """The part of `output_tokens` that was thinking."""

    @property
    def prompt_tokens(self) -> int:
        """All input tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


NO_USAGE = Usage()


@dataclass(frozen=True, kw_only=True)
class Price:
    """Money for a million tokens of each kind, in whatever currency the test uses.

    `cache_read` and the `cache_write` prices default to the input price.
    """

    input: Decimal | int | str
    output: Decimal | int | str
    cache_read: Decimal | int | str | None = None
    cache_write: Decimal | int | str | None = None
    cache_write_1h: Decimal | int | str | None = None

    def cost(self, usage: Usage) -> Decimal:
        """The exact price of that usage."""
        write = self.input if self.cache_write is None else self.cache_write
        per_kind = (
            (usage.input_tokens, self.input),
            (usage.cache_read_tokens, self.input if self.cache_read is None else self.cache_read),
            (usage.cache_write_tokens - usage.cache_write_1h_tokens, write),
            (usage.cache_write_1h_tokens, write if self.cache_write_1h is None else self.cache_write_1h),
            (usage.output_tokens, self.output),
        )
        return sum((tokens * Decimal(price) for tokens, price in per_kind), Decimal(0)) / 1_000_000


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The bill of several answers."""

    requests: int
    usage: Usage
    cost: Decimal | None
    """None when one of the models has no price."""
