"""Numbers for Prometheus: what the gateway answered since it started, and what the home did and spent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import apsw
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nexus.app import App
from nexus.ledgers import sql
from nexus.runs import MICRO

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOKENS: Final = ("fresh", "cache_read", "cache_write", "output")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The numbers of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "nexus_http_requests",
            "Requests that the gateway answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "nexus_http_request_seconds",
            "How long answers took; streams count to their end.",
            ("route",),
            registry=self._registry,
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer. The route is a pattern, so that there are few of them."""
        self._answers.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def text(self, app: App) -> bytes:
        """Everything, as Prometheus reads it."""
        requests, usage = await app.ledgers.runtime.read(_totals)
        waiting = (await app.embedding.backlog()).depth
        home = CollectorRegistry()
        home.register(_Home(requests=requests, usage=usage, waiting=waiting))
        return generate_latest(self._registry) + generate_latest(home)


Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Home(Collector):
    """Sums over the ledgers, so they go on where they were after a restart."""

    requests: Rows
    usage: Rows
    waiting: int

    def collect(self) -> Iterator[Metric]:
        ended = CounterMetricFamily(
            "nexus_requests", "Requests by how they stand.", labels=("channel", "status")
        )
        for channel, status, count in self.requests:
            ended.add_metric((channel, status), count)
        yield ended
        calls = CounterMetricFamily("nexus_model_calls", "Calls of models.", labels=("model",))
        tokens = CounterMetricFamily("nexus_tokens", "Tokens by kind.", labels=("model", "kind"))
        cost = CounterMetricFamily("nexus_cost_usd", "Money, where prices are known.", labels=("model",))
        for model, count, *read, microusd in self.usage:
            calls.add_metric((model,), count)
            cost.add_metric((model,), microusd / MICRO)
            for kind, number in zip(_TOKENS, read, strict=True):
                tokens.add_metric((model, kind), number)
        yield from (calls, tokens, cost)
        yield GaugeMetricFamily(
            "nexus_waiting_to_be_embedded", "Texts without a vector yet.", value=self.waiting
        )


def _totals(connection: apsw.Connection) -> tuple[Rows, Rows]:
    queries = sql.queries("runtime")
    return (
        cast("Rows", connection.execute(queries["requests_by_status"]).fetchall()),
        cast("Rows", connection.execute(queries["usage_by_model"]).fetchall()),
    )
