"""What the server keeps of each request and of its answer."""

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from nexus.clock import timestamp
from nexus.testing.model_server.request import Json, ModelRequest
from nexus.testing.model_server.usage import Price, Totals, Usage

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
