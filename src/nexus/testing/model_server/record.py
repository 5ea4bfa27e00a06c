"""What the server keeps of each request and of its answer."""

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Literal

from nexus.clock import timestamp
from nexus.testing.model_server.request import Json, ModelRequest


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


Outcome = Literal["pending", "complete", "error", "broken", "cut", "silent", "hung_up"]


@dataclass
class Answer:
    """The answer as far as it was sent. It is final when `outcome` is no longer `pending`.

    `complete`: all of it was sent. `error`: an error status. `broken`: an error event was in it, or
    something that is not JSON. `cut`: the server closed the connection in the middle. `silent`: it never
    answered. `hung_up`: the client went away first, or the server was stopped.
    """

    outcome: Outcome = "pending"
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    usage: Usage = field(default_factory=Usage)
    """What a provider would bill: all input once the answer began, and the output that was sent."""
    sent: bytearray = field(default_factory=bytearray, repr=False)


@dataclass(frozen=True)
class Exchange:
    """A request and its answer."""

    request: ModelRequest
    answer: Answer = field(default_factory=Answer)
    scripted: bool = True
    """False when the script had nothing for it."""


class Records:
    """Every exchange, in order of arrival. Filled by the server's thread, read by the test's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._exchanges: list[Exchange] = []

    def next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def add(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.append(exchange)

    def all(self) -> list[Exchange]:
        with self._lock:
            return list(self._exchanges)

    def clear(self) -> None:
        with self._lock:
            self._exchanges.clear()


def total(
    exchanges: list[Exchange], prices: Mapping[str, Price], where: Callable[[Exchange], bool] | None = None
) -> Totals:
    """The bill of those exchanges."""
    counted = [exchange for exchange in exchanges if where is None or where(exchange)]
    costs = [_cost(exchange, prices) for exchange in counted]
    known = [cost for cost in costs if cost is not None]
    return Totals(
        requests=len(counted),
        usage=sum((exchange.answer.usage for exchange in counted), Usage()),
        cost=sum(known, Decimal(0)) if len(known) == len(costs) else None,
    )


def _cost(exchange: Exchange, prices: Mapping[str, Price]) -> Decimal | None:
    usage = exchange.answer.usage
    if usage == Usage():
        return Decimal(0)
    price = prices.get(exchange.request.model)
    return None if price is None else price.cost(usage)


def as_json(exchange: Exchange) -> Json:
    """An exchange for the control interface. The key appears as a fingerprint."""
    request, answer = exchange.request, exchange.answer
    return {
        "number": request.number,
        "at": timestamp(request.at),
        "wire": request.wire,
        "path": request.path,
        "headers": request.headers.printable(),
        "key_sha256": hashlib.sha256(request.key.encode()).hexdigest() if request.key else None,
        "json": request.json,
        "scripted": exchange.scripted,
        "answer": {
            "outcome": answer.outcome,
            "status": answer.status,
            "headers": dict(answer.headers),
            "usage": usage_json(answer.usage),
            "sent": bytes(answer.sent).decode("utf-8", "replace"),
        },
    }


def usage_json(usage: Usage) -> Json:
    return {**vars(usage), "prompt_tokens": usage.prompt_tokens}


def totals_json(totals: Totals) -> Json:
    return {
        "requests": totals.requests,
        "usage": usage_json(totals.usage),
        "cost": None if totals.cost is None else str(totals.cost),
    }
