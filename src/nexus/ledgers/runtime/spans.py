"""Spans in the runtime ledger: the trace of a request, one row for each thing that took time."""

import json
from dataclasses import dataclass, field
from typing import Any

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Something that took time. The attributes hold names and numbers, never what anybody said."""

    id: str
    request_id: str
    root_request_id: str
    kind: str
    """stage, hook, automation, model, tool, …"""
    name: str
    started_at: str
    parent_span_id: str | None = None
    execution_id: str | None = None
    duration_ms: float | None = None
    outcome: str | None = None
    """ok, error, timeout, cancelled, …; None while it is under way."""
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


def record(connection: apsw.Connection, span: Span) -> None:
    """Record a span. The same id again brings its end up to date."""
    values = {name: getattr(span, name) for name in Span.__slots__}
    values |= {"name": storable(span.name), "attributes": json.dumps(span.attributes, sort_keys=True)}
    connection.execute(sql.queries("runtime")["record_span"], values)


def end_stage(
    connection: apsw.Connection, request_id: str, name: str, *, ended_at: str, outcome: str
) -> None:
    """Record the end of a stage of a request that is under way."""
    values = {"request_id": request_id, "name": name, "ended_at": ended_at, "outcome": outcome}
    connection.execute(sql.queries("runtime")["end_open_stage"], values)
