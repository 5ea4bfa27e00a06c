"""Numbers for Prometheus: what the gateway answered since it started, and what the home did and spent."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import apsw
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus.app import App
from nexus.ledgers import sql
from nexus.runs import MICRO

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOKENS: Final = ("fresh", "cache_read", "cache_write", "output")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The numbers of one gateway."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
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

    def count_answer(self, method: str, route: str, status: int, seconds: float) -> None:
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


_log = logging.getLogger("nexus.gateway")


class Observer:
    """Stands outermost, so that what the guard refuses is seen, too. Paths are noted as patterns only."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Sequence[BaseRoute] = ()) -> None:
        self._app = app
        self._metrics = metrics
        self._patterns = _patterns(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status, left = time.perf_counter(), 0, False

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        async def receiving() -> Message:
            nonlocal left
            message = await receive()
            left = left or message["type"] == "http.disconnect"
            return message

        try:
            await self._app(scope, receiving, sending)
        except asyncio.CancelledError:
            # The gateway stops and waits no longer. uvicorn would take it for an error of the application.
            _log.info("cut off", extra=self._describe(scope, status, time.perf_counter() - began))
            return
        except Exception:
            if left:
                # Whoever asked went away in the middle of the answer: nothing is wrong here.
                _log.info(
                    "nobody listens any more",
                    extra=self._describe(scope, status, time.perf_counter() - began),
                )
                return
            _log.exception("a request failed", extra=self._describe(scope, 500, time.perf_counter() - began))
            if status == 0:
                raise
        seconds = time.perf_counter() - began
        self.count(scope, self._route(scope), status, seconds)
        _log.info("answered", extra=self._describe(scope, status, seconds))

    def count(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        self._metrics.count_answer(scope["method"], route, status, seconds)

    def _describe(self, scope: Scope, status: int, seconds: float) -> dict[str, Any]:
        return {
            "method": scope["method"],
            "route": self._route(scope),
            "status": status,
            "ms": round(seconds * 1000, 1),
        }

    def _route(self, scope: Scope) -> str:
        """The pattern that a path fits: the path itself may name somebody, or be anything at all."""
        known = self._patterns.get(scope.get("endpoint"))
        if known is not None:
            return known
        own = getattr(scope.get("route"), "path_format", "")
        return _outer(scope["path"], own) + own if own else "-"


def _patterns(routes: Sequence[BaseRoute]) -> dict[object, str]:
    """The pattern of each endpoint that these routes lead to themselves."""
    mounted: dict[object, str] = {
        each.app: f"{each.path}/{{path}}" for each in routes if isinstance(each, Mount)
    }
    return mounted | {each.endpoint: each.path_format for each in routes if isinstance(each, Route)}


def _outer(path: str, own: str) -> str:
    """What routers around a route put before its pattern: all before where its first words occur."""
    return path.partition(own.partition("{")[0])[0]
