"""What was spent and what took how long, once each."""

import json
from dataclasses import replace
from typing import Any

from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import trace, usage
from nexus.ledgers.runtime.trace import Span
from nexus.ledgers.runtime.usage import UsageRow
from nexus.runs import Totals

_ROW = UsageRow(
    id="use_1",
    request_id="req_2",
    root_request_id="req_1",
    execution_id="exe_1",
    provider="p",
    model="m",
    input_tokens=10,
    cache_read_tokens=100,
    cache_write_tokens=20,
    output_tokens=5,
    cost_microusd=300,
)


async def test_an_attempt_is_billed_once(opened: Ledgers) -> None:
    for _ in range(2):
        await opened.runtime.write(usage.record, row=_ROW)

    found = await opened.runtime.read(usage.of_root, root_request_id="req_1")
    assert found == Totals(
        calls=1,
        input_tokens=10,
        cache_read_tokens=100,
        cache_write_tokens=20,
        output_tokens=5,
        cost_microusd=300,
    )
    assert found.tokens == 135


async def test_usage_rolls_up_to_the_root_and_unknown_prices_are_told(opened: Ledgers) -> None:
    rows = [
        _ROW,
        replace(_ROW, id="use_2", execution_id="exe_2", cost_microusd=None),
        replace(_ROW, id="use_3", root_request_id="req_9"),
    ]
    for one in rows:
        await opened.runtime.write(usage.record, row=one)

    of_root = await opened.runtime.read(usage.of_root, root_request_id="req_1")
    assert (of_root.calls, of_root.cost_microusd, of_root.unpriced_calls) == (2, 300, 1)
    of_run = await opened.runtime.read(usage.of_execution, execution_id="exe_2")
    assert (of_run.calls, of_run.input_tokens) == (1, 10)
    assert await opened.runtime.read(usage.of_root, root_request_id="req_0") == Totals()


def test_totals_can_be_added() -> None:
    assert Totals(calls=1, input_tokens=2) + Totals(calls=2, output_tokens=3) == Totals(
        calls=3, input_tokens=2, output_tokens=3
    )


async def test_a_span_recorded_again_keeps_its_beginning_and_gets_its_end(opened: Ledgers) -> None:
    common: dict[str, Any] = {"id": "spn_1", "request_id": "req_1", "root_request_id": "req_1"}
    begun = Span(**common, kind="tool", name="bash", started_at="2026-01-01T00:00:00.000Z")
    ended = Span(
        **common,
        kind="tool",
        name="bash",
        started_at="2026-01-01T00:00:09.000Z",
        duration_ms=12.5,
        outcome="ok",
        attributes={"call_id": "c"},
    )
    for span in (begun, ended):
        await opened.runtime.write(trace.record_span, span=span)

    query = "SELECT started_at, duration_ms, outcome, attributes_json FROM spans"
    found = await opened.runtime.read(lambda c: c.execute(query).fetchall())
    assert found == [("2026-01-01T00:00:00.000Z", 12.5, "ok", json.dumps({"call_id": "c"}))]
