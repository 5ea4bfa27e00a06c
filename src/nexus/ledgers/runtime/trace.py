"""The trace of a request as a tree: what was done for it, how long it took and what it cost."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast

import apsw

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.runtime import dispatches, requests
from nexus.ledgers.runtime.usage import Totals

NodeKind = Literal["request", "execution", "automation", "span"]


@dataclass(kw_only=True)
class Node:
    """Something that was done. Its usage is its own; `total` adds what lies below."""

    kind: NodeKind
    id: str
    name: str
    status: str
    started_at: str
    duration_ms: float | None
    """None while it is under way."""
    error: str | None = None
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    usage: Totals = field(default_factory=Totals)
    children: list["Node"] = field(default_factory=list["Node"])

    @property
    def total(self) -> Totals:
        return sum((child.total for child in self.children), start=self.usage)

    def walk(self) -> Iterator["Node"]:
        """This and everything below."""
        yield self
        for child in self.children:
            yield from child.walk()


def find(connection: apsw.Connection, text: str) -> str:
    """The request that an id means: of a request, event, execution, dispatch or span, or how one begins."""
    wanted = text if "_" in text else f"req_{text}"
    rows = connection.execute(sql.queries("runtime")["request_named"], {"text": wanted}).fetchall()
    found = [cast("str", row[0]) for row in rows]
    if not found:
        raise UsageError(f"Nothing is known as {text}", hint="`nexus trace` lists the latest requests.")
    if len(found) > 1 and wanted not in found and not wanted.startswith("evt_"):
        some = ", ".join(found[:5])
        raise UsageError(f"{text} may mean several requests: {some}", hint="Write more of the one you mean.")
    return wanted if wanted in found else found[0]


def load(connection: apsw.Connection, request_id: str) -> Node:
    """The tree of a request and all that it led to. Of one that was forgotten, what it cost is left."""
    root = connection.execute(sql.queries("runtime")["root_of"], {"id": request_id}).get
    nodes = _Nodes(connection, cast("str", root))
    if request_id in nodes.requests:
        return nodes.requests[request_id]
    forgotten = Node(
        kind="request", id=request_id, name="forgotten", status="", started_at="", duration_ms=None
    )
    forgotten.usage = nodes.unplaced
    return forgotten


class _Nodes:
    """Everything below a root, each hung where it belongs."""

    def __init__(self, connection: apsw.Connection, root_request_id: str) -> None:
        self._connection = connection
        self._root = root_request_id
        self.unplaced = Totals()
        self.requests: dict[str, Node] = {}
        self._executions: dict[str, Node] = {}
        self._spans: dict[str, Node] = {}
        self._automations: dict[str, Node] = {}
        self._children: dict[str, list[Node]] = defaultdict(list)
        self._add_requests()
        self._add_executions()
        self._add_automations()
        self._add_spans()
        self._add_usage()
        for id_, node in self._all():
            node.children = sorted(self._children[id_], key=lambda child: (child.started_at, child.id))

    def _all(self) -> Iterator[tuple[str, Node]]:
        for nodes in (self.requests, self._executions, self._spans, self._automations):
            yield from nodes.items()

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        return cast(
            "Iterator[tuple[Any, ...]]",
            self._connection.execute(sql.queries("runtime")[query], (self._root,)),
        )

    def _add_requests(self) -> None:
        given_by = {one.worker_request_id: one for one in dispatches.of_root(self._connection, self._root)}
        for request in requests.lineage(self._connection, self._root):
            node = self.requests[request.id] = Node(
                kind="request",
                id=request.id,
                name=request.role or "",
                status=request.status,
                started_at=request.created_at,
                duration_ms=_between_ms(request.created_at, request.ended_at),
                error=request.error,
                detail={
                    "session": request.session_label,
                    "channel": request.channel,
                    "event": request.event_id,
                    "stage": request.stage,
                },
            )
            dispatch = given_by.get(request.id)
            if dispatch is not None:
                node.detail |= {"dispatch": dispatch.id, "task": dispatch.task}
            above = dispatch.parent_execution_id if dispatch else request.parent_request_id
            self._children[above or ""].append(node)

    def _add_executions(self) -> None:
        for id_, request_id, label, status, error, taken_by, enqueued_at, started_at, ended_at in self._rows(
            "traced_executions"
        ):
            began = started_at or enqueued_at
            node = self._executions[id_] = Node(
                kind="execution",
                id=id_,
                name=label,
                status="taken" if taken_by else status,
                started_at=began,
                duration_ms=_between_ms(began, ended_at),
                error=error,
                detail={"waited_ms": _between_ms(enqueued_at, started_at), "taken_by": taken_by},
            )
            self._children[request_id].append(node)

    def _add_automations(self) -> None:
        for id_, request_id, name, hook_point, status, error, duration_ms, began in self._rows(
            "traced_invocations"
        ):
            node = self._automations[id_] = Node(
                kind="automation",
                id=id_,
                name=name,
                status=status,
                started_at=began,
                duration_ms=duration_ms,
                error=error,
                detail={"hook_point": hook_point},
            )
            self._children[request_id].append(node)

    def _add_spans(self) -> None:
        rows = list(self._rows("traced_spans"))
        known = {row[0] for row in rows}
        for (
            id_,
            parent,
            request_id,
            execution_id,
            kind,
            name,
            began,
            duration_ms,
            outcome,
            attributes,
        ) in rows:
            detail: dict[str, Any] = json.loads(attributes)
            node = self._spans[id_] = Node(
                kind="span",
                id=id_,
                name=name,
                status=outcome or "running",
                started_at=began,
                duration_ms=duration_ms,
                error=detail.pop("error", None),
                detail={"kind": kind, **detail},
            )
            above = parent if parent in known else execution_id
            self._children[above if above in known or above in self._executions else request_id].append(node)

    def _add_usage(self) -> None:
        for request_id, execution_id, invocation_id, span_id, *counts in self._rows("traced_usage"):
            totals = Totals(**dict(zip(Totals.__slots__, counts, strict=True)))
            spender = (
                self._spans.get(span_id)
                or self._executions.get(execution_id)
                or self._automations.get(invocation_id)
                or self.requests.get(request_id)
            )
            if spender is None:
                self.unplaced += totals
            else:
                spender.usage += totals


def _between_ms(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return _ms(clock.parse(start), clock.parse(end))


def _ms(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds() * 1000
