"""The trace of a request as a tree: what was done for it, how long it took and what it cost."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import apsw

from nexus import clock
from nexus.errors import MissingError, UsageError
from nexus.ledgers import sql
from nexus.ledgers.runtime import dispatches, injections, requests
from nexus.ledgers.text import storable
from nexus.runs import Totals

NodeKind = Literal["request", "execution", "automation", "span", "memory"]


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


def record_span(connection: apsw.Connection, span: Span) -> None:
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
    """Find the request that an id means: of a request, event, execution, dispatch or span, or a beginning."""
    wanted = text if "_" in text else f"req_{text}"
    rows = connection.execute(sql.queries("runtime")["request_named"], {"text": wanted}).fetchall()
    found = [cast("str", row[0]) for row in rows]
    if not found:
        raise MissingError(f"Nothing found for {text}", hint="List the latest requests with `nexus trace`.")
    if len(found) > 1 and wanted not in found and not wanted.startswith("evt_"):
        some = ", ".join(found[:5])
        raise UsageError(f"{text} matches several requests: {some}", hint="Use more of the id.")
    return wanted if wanted in found else found[0]


def load(connection: apsw.Connection, request_id: str) -> Node:
    """Load the tree of a request and all that it led to. Of a forgotten one, what it cost is left."""
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
        self._add_memories()
        self._add_spans()
        self._add_usage()
        for nodes in (self.requests, self._executions, self._spans, self._automations):
            for id_, node in nodes.items():
                node.children = sorted(self._children[id_], key=lambda child: (child.started_at, child.id))

    def _rows(self, query: str) -> Iterator[dict[str, Any]]:
        cursor = self._connection.execute(sql.queries("runtime")[query], (self._root,))
        for row in cursor:
            names = (name for name, _ in cursor.get_description())
            yield dict(zip(names, row, strict=True))

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
        for row in self._rows("traced_executions"):
            began = row["started_at"] or row["enqueued_at"]
            waited_ms = _between_ms(row["enqueued_at"], row["started_at"])
            node = self._executions[row["id"]] = Node(
                kind="execution",
                id=row["id"],
                name=row["session_label"],
                status="taken" if row["taken_by"] else row["status"],
                started_at=began,
                duration_ms=_between_ms(began, row["ended_at"]),
                error=row["error"],
                detail={"waited_ms": waited_ms, "taken_by": row["taken_by"]},
            )
            self._children[row["request_id"]].append(node)

    def _add_automations(self) -> None:
        for row in self._rows("traced_invocations"):
            node = self._automations[row["id"]] = Node(
                kind="automation",
                id=row["id"],
                name=row["name"],
                status=row["status"],
                started_at=row["began"],
                duration_ms=row["duration_ms"],
                error=row["error"],
                detail={"hook_point": row["hook_point"]},
            )
            self._children[row["request_id"]].append(node)

    def _add_memories(self) -> None:
        """Hang what was injected from the invocation that decided it, and count there what was left out."""
        for offered in injections.of_root(self._connection, self._root):
            invocation = self._automations.get(offered.invocation_id)
            if invocation is None:
                continue
            invocation.detail["decided_by"] = offered.decided_by
            counted = "injected" if offered.injected else "left_out"
            invocation.detail[counted] = invocation.detail.get(counted, 0) + 1
            if offered.injected:
                self._children[offered.invocation_id].append(_memory(offered))

    def _add_spans(self) -> None:
        rows = list(self._rows("traced_spans"))
        known = {row["id"] for row in rows}
        for row in rows:
            detail: dict[str, Any] = json.loads(row["attributes_json"])
            node = self._spans[row["id"]] = Node(
                kind="span",
                id=row["id"],
                name=row["name"],
                status=row["outcome"] or "running",
                started_at=row["started_at"],
                duration_ms=row["duration_ms"],
                error=detail.pop("error", None),
                detail={"kind": row["kind"], **detail},
            )
            above = row["parent_span_id"] if row["parent_span_id"] in known else row["execution_id"]
            placed = above in known or above in self._executions
            self._children[above if placed else row["request_id"]].append(node)

    def _add_usage(self) -> None:
        for row in self._rows("traced_usage"):
            totals = Totals(**{name: row[name] for name in Totals.__slots__})
            spender = (
                self._spans.get(row["span_id"])
                or self._executions.get(row["execution_id"])
                or self._automations.get(row["invocation_id"])
                or self.requests.get(row["request_id"])
            )
            if spender is None:
                self.unplaced += totals
            else:
                spender.usage += totals


def _memory(offered: injections.Injection) -> Node:
    return Node(
        kind="memory",
        id=offered.item_id,
        name=offered.item_kind.replace("_", " "),
        status={None: "", True: "used", False: "not used"}[offered.used],
        started_at=offered.created_at,
        duration_ms=0.0,
        detail={
            "rank": offered.rank,
            "score": offered.score,
            "probability": offered.probability,
            "why": offered.why,
            "used_by": offered.used_by,
        },
    )


def _between_ms(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return (clock.parse(end) - clock.parse(start)).total_seconds() * 1000
