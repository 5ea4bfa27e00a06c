"""The tree of a request: what hangs where, and what adds up."""

import apsw
import pytest

from nexus.errors import MissingError, UsageError
from nexus.ledgers import sql
from nexus.ledgers.runtime import trace, usage
from nexus.ledgers.runtime.trace import Node
from unit.ledgers.runtime.lineage import ROOT, WORKER, Lineage


@pytest.fixture
def connection() -> apsw.Connection:
    made = apsw.Connection(":memory:")
    made.execute(sql.text("runtime", "schema.sql"))
    Lineage(made).write()
    return made


def outline(node: Node) -> object:
    """Ids nested as the nodes are."""
    return (node.id, [outline(child) for child in node.children]) if node.children else node.id


def test_everything_hangs_where_it_was_done(connection: apsw.Connection) -> None:
    assert outline(trace.load(connection, ROOT)) == (
        ROOT,
        [("exe_1", ["spn_1", "spn_2", (WORKER, [("exe_2", ["spn_3"])]), "spn_4"]), "exe_3"],
    )


def test_the_sum_at_the_root_is_all_that_was_spent(connection: apsw.Connection) -> None:
    root = trace.load(connection, ROOT)

    assert root.total == usage.of_root(connection, ROOT)
    assert (root.total.calls, root.total.tokens, root.total.cost_microusd) == (4, 311, 1_540)
    assert root.total.unpriced_calls == 1
    assert root.usage.calls == 0


def test_a_sum_below_counts_what_lies_below_it_and_a_lost_calls_cost(connection: apsw.Connection) -> None:
    nodes = {node.id: node for node in trace.load(connection, ROOT).walk()}

    assert nodes[WORKER].total.tokens == 77
    assert nodes["exe_1"].total.calls == 3
    assert nodes["exe_3"].usage.cost_microusd == 40


def test_a_worker_can_be_looked_at_alone_with_its_task(connection: apsw.Connection) -> None:
    worker = trace.load(connection, WORKER)

    assert outline(worker) == (WORKER, [("exe_2", ["spn_3"])])
    assert (worker.detail["task"], worker.status) == ("Find the date", "failed")
    assert worker.error == "ModelError: no model answered"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (ROOT, ROOT),
        ("ROOT", ROOT),
        ("req_WORK", WORKER),
        ("evt_1", ROOT),
        ("exe_2", WORKER),
        ("dsp_1", WORKER),
        ("spn_3", WORKER),
        ("use_3", WORKER),
    ],
)
def test_a_request_is_found_by_what_belongs_to_it(connection: apsw.Connection, text: str, meant: str) -> None:
    assert trace.find(connection, text) == meant


def test_what_is_unknown_or_means_several_is_refused(connection: apsw.Connection) -> None:
    with pytest.raises(MissingError, match="Nothing found for req_9"):
        trace.find(connection, "req_9")
    with pytest.raises(UsageError, match=f"several requests: {ROOT}, {WORKER}"):
        trace.find(connection, "req_")


def test_of_what_was_forgotten_the_cost_is_left(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")
    for table in ("dispatches", "spans", "executions", "requests"):
        connection.execute(f"DELETE FROM {table}")
    node = trace.load(connection, trace.find(connection, ROOT))

    assert (node.name, node.children, node.total.cost_microusd) == ("forgotten", [], 1_540)


def test_what_is_under_way_has_no_duration(connection: apsw.Connection) -> None:
    nodes = {node.id: node for node in trace.load(connection, ROOT).walk()}

    assert (nodes["exe_3"].status, nodes["exe_3"].duration_ms) == ("running", None)
    assert nodes["spn_1"].duration_ms == 250.0


def test_an_automation_shows_with_its_hook_point_and_what_it_spent(connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO automations (id, name) VALUES ('aut_1', 'memory-injection');"
        "INSERT INTO invocations (id, automation_id, automation_version, hook_point, request_id,"
        " root_request_id, blocking, status, duration_ms, created_at)"
        f" VALUES ('inv_1', 'aut_1', 1, 'worker:pre_execution', '{WORKER}', '{ROOT}', 1, 'done', 30, '2026');"
        "INSERT INTO usage (id, request_id, root_request_id, invocation_id, provider, model, output_tokens)"
        f" VALUES ('use_inv', '{WORKER}', '{ROOT}', 'inv_1', 'p', 'm', 9)"
    )
    node = trace.load(connection, WORKER).children[0]

    assert (node.kind, node.name, node.detail) == (
        "automation",
        "memory-injection",
        {"hook_point": "worker:pre_execution"},
    )
    assert (node.duration_ms, node.usage.output_tokens) == (30.0, 9)
