"""The list of requests: its order, its pages, what each cost with all that it led to."""

import pytest

from nexus.errors import UsageError
from nexus.gateway.views import requests
from unit.gateway.scene import Scene


async def test_a_request_is_listed_once_with_what_it_and_its_workers_cost(scene: Scene) -> None:
    request_id = await scene.lineage()
    (line,) = (await requests.load_page(scene.ledgers)).items
    assert (line.id, line.status, line.channel) == (request_id, "done", "cli")
    assert line.workers == 1
    assert line.total.calls == 4
    assert line.total.cost_microusd == 1_540
    assert line.total.unpriced_calls == 1
    assert line.duration_ms is not None


async def test_pages_follow_each_other_without_gap_or_repetition(scene: Scene) -> None:
    await scene.requests(7)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await requests.load_page(scene.ledgers, cursor=cursor, limit=3)
        seen += [line.id for line in page.items]
        if (cursor := page.next) is None:
            break
    assert seen == [f"req_cli_{number:04}" for number in range(6, -1, -1)]


async def test_a_filter_leaves_only_what_was_asked_for(scene: Scene) -> None:
    await scene.requests(2)
    await scene.requests(2, channel="email")
    await scene.lineage()
    by_channel = await requests.load_page(scene.ledgers, channel="email")
    by_status = await requests.load_page(scene.ledgers, status="done")
    assert {line.channel for line in by_channel.items} == {"email"}
    assert [line.id for line in by_status.items] == ["req_ROOT1"]
    assert await requests.list_channels(scene.ledgers) == ("cli", "email")


async def test_a_place_that_no_page_gave_is_refused(scene: Scene) -> None:
    with pytest.raises(UsageError, match="not a valid cursor"):
        await requests.load_page(scene.ledgers, cursor="nonsense")


async def test_a_trace_tells_what_was_asked_and_answered(scene: Scene) -> None:
    await scene.lineage()
    await scene.say("It is Tuesday.", direction="outbound", request_id="req_ROOT1")
    trace = await requests.load_trace(scene.ledgers, "req_ROOT1")
    assert trace.request is not None
    assert trace.node.total.calls == 4
    assert trace.answered == "It is Tuesday."
