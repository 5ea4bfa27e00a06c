"""Export of traces by OTLP, for those who have a collector: each request once, when its work has ended.

Ids follow from ours, so a request that is sent twice because the program was killed in between is the same
trace. Names, times, states and numbers are sent; nothing that anybody said.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import apsw

from nexus import clock
from nexus.errors import ConfigError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import trace
from nexus.ledgers.runtime.trace import Node
from nexus.watch import repeat

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_LOOK_S: Final = 10.0
# What a request began may go on after its end; so long it is waited for.
_PATIENCE: Final = timedelta(minutes=10)
_LONGEST: Final = timedelta(days=2)
_TIMEOUT_S: Final = 10.0
_log = logging.getLogger(__name__)

Send = Callable[[Sequence["ReadableSpan"]], bool]
"""Hands spans to a collector; blocking. False: it did not take them."""


class Exporter:
    """Sends what has ended since it last did. How far it came is kept in the home."""

    def __init__(
        self,
        ledgers: Ledgers,
        send: Send,
        now: clock.Clock = clock.now,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._ledgers = ledgers
        self._send = send
        self._now = now
        self._about = about or {}
        self._file = ledgers.home.state / "exported-traces.json"
        self.is_refused = False
        """Whether the collector did not take the last trace."""

    async def run(self) -> None:
        """Look for ended requests until cancelled."""
        await repeat(self.once, _log, "traces were not exported, and are tried again", pause_s=_LOOK_S)

    async def once(self) -> int:
        """Export what has ended; returns how many requests that were."""
        at, last = await asyncio.to_thread(self._cursor)
        since = clock.timestamp(clock.parse(at) - _LONGEST)
        values = {"since": since, "at": at, "id": last, "now": clock.timestamp(self._now())}
        ended = await self._ledgers.runtime.read(_find_ended, values=values)
        exported = 0
        for id_, ended_at, busy in ended:
            if busy and self._now() - clock.parse(ended_at) < _PATIENCE:
                break
            node = await self._ledgers.runtime.read(trace.load, request_id=id_)
            self.is_refused = not await asyncio.to_thread(self._send, list(make_spans(node, self._about)))
            if self.is_refused:
                _log.warning("the collector rejected a trace; retrying")
                break
            await asyncio.to_thread(self._file.write_text, json.dumps([ended_at, id_]), encoding="utf-8")
            exported += 1
        return exported

    def _cursor(self) -> tuple[str, str]:
        """Behind which request to go on; now for the first export, or if the clock was ahead."""
        begun = (clock.timestamp(self._now()), "")
        with suppress(FileNotFoundError, ValueError):
            at, id_ = json.loads(self._file.read_text(encoding="utf-8"))
            if at <= begun[0]:
                return at, id_
        self._file.write_text(json.dumps(begun), encoding="utf-8")
        return begun


def collector(url: str) -> Send:
    """A collector that takes OTLP over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError:
        raise ConfigError(
            "[gateway] otlp_url needs a package that is not installed",
            hint="Run `pip install nexus-runtime[otel]`, or remove the setting.",
        ) from None
    exporter = OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_S)
    return lambda found: exporter.export(found) is SpanExportResult.SUCCESS


def make_spans(root: Node, about: Mapping[str, str]) -> Iterator["ReadableSpan"]:
    """A trace as OpenTelemetry has it: one span for each thing that was done.

    `about` says whose it is, beside the name of the service.
    """
    from opentelemetry.sdk.resources import Resource

    resource = Resource({"service.name": "nexus", **about})
    yield from _make_spans(root, None, _number(root.id, 16), resource)


def _make_spans(node: Node, parent: Any, trace_id: int, resource: Any) -> Iterator["ReadableSpan"]:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    context = SpanContext(trace_id, _number(node.id, 8), is_remote=False, trace_flags=TraceFlags(1))
    if node.started_at:
        start_ns = int(clock.parse(node.started_at).timestamp() * 1e9)
        failed = node.status in {"error", "failed", "timeout"}
        yield ReadableSpan(
            name=_name(node),
            context=context,
            parent=parent,
            resource=resource,
            attributes=_attributes(node),
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=start_ns,
            end_time=start_ns + int((node.duration_ms or 0) * 1e6),
        )
    for child in node.children:
        yield from _make_spans(child, context if node.started_at else parent, trace_id, resource)


def _name(node: Node) -> str:
    # The name of a run is its session's label, which somebody chose.
    kind = str(node.detail.get("kind", node.kind))
    return kind if kind in {"execution", "request"} else f"{kind} {node.name}"


def _attributes(node: Node) -> dict[str, str | int]:
    told: dict[str, str | int] = {"nexus.id": node.id, "nexus.status": node.status}
    if node.usage.calls:
        told |= {
            "gen_ai.usage.input_tokens": node.usage.tokens - node.usage.output_tokens,
            "gen_ai.usage.output_tokens": node.usage.output_tokens,
            "nexus.cost_microusd": node.usage.cost_microusd,
        }
    return told


def _number(id_: str, size_bytes: int) -> int:
    return int.from_bytes(hashlib.sha256(id_.encode()).digest()[:size_bytes])


def _find_ended(connection: apsw.Connection, values: dict[str, str]) -> list[tuple[str, str, int]]:
    found = connection.execute(sql.queries("runtime")["ended_roots"], values).fetchall()
    return cast("list[tuple[str, str, int]]", found)
