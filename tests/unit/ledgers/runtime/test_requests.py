"""Requests in the ledger: created once, ended once, restored as they were."""

from functools import partial

import pytest

from nexus.ledgers import Ledgers, events
from nexus.ledgers.runtime import dispatches, requests
from nexus.request import Access, Agent, Event, Grant, Request

_ACCESS = Access(
    level="owner",
    tools=frozenset({"bash", "read"}),
    directories=(Grant(path="/home/me/notes"), Grant(path="/home/me/desk", writable=True)),
    network=True,
)


def a_request(**values: object) -> Request:
    return Request(
        event=Event(content="Write to Sarah", channel="cli"),
        agent=Agent(session_label="main"),
        access=_ACCESS,
        **values,  # pyright: ignore[reportArgumentType]
    )


async def test_a_request_is_created_once(opened: Ledgers) -> None:
    request = a_request()
    create = partial(requests.create, request=request)

    assert await opened.runtime.write(create)
    assert not await opened.runtime.write(create)
    stored = await opened.runtime.read(requests.get, request_id=request.request_id)
    assert stored is not None
    assert (stored.status, stored.session_label, stored.access) == ("running", "main", _ACCESS)


async def test_a_request_of_an_event_is_restored_as_it_was(opened: Ledgers) -> None:
    said = events.NewEvent(channel="cli", content="Write to Sarah", sender="me")
    (event_id,) = await opened.events.write(events.append, [said])
    request = a_request(principal_id="ent_me")
    request.event.id, request.event.sender_id = event_id, "me"
    await opened.runtime.write(requests.create, request=request)

    assert await requests.restore(opened, request.request_id) == request
    assert await opened.runtime.read(requests.of_event, event_id=event_id) == [request.request_id]


async def test_a_workers_request_is_restored_with_its_task(opened: Ledgers) -> None:
    parent = a_request()
    narrowed = Access(tools=frozenset({"read"}))
    worker = parent.child(
        content="Find the date", agent=Agent(role="worker", session_label="worker:1"), access=narrowed
    )
    given = dispatches.NewDispatch(
        id="dsp_1",
        parent_request_id=parent.request_id,
        root_request_id=parent.request_id,
        parent_session_label="main",
        parent_execution_id="exe_1",
        call_id="call_1",
        worker_request_id=worker.request_id,
        worker_session_label="worker:1",
        execution_id="exe_2",
        task="Find the date",
    )
    await opened.runtime.write(requests.create, request=parent)
    await opened.runtime.write(requests.create, request=worker)
    await opened.runtime.write(dispatches.create, dispatch=given)

    assert await requests.restore(opened, worker.request_id) == worker


async def test_a_request_that_was_forgotten_is_not_restored(opened: Ledgers) -> None:
    assert await requests.restore(opened, "req_gone") is None


@pytest.mark.parametrize("tools", [None, frozenset[str]()], ids=["all tools", "no tools"])
async def test_all_tools_and_no_tools_are_kept_apart(opened: Ledgers, tools: frozenset[str] | None) -> None:
    request = a_request()
    request.access = Access(tools=tools)
    await opened.runtime.write(requests.create, request=request)
    restored = await requests.restore(opened, request.request_id)

    assert restored is not None
    assert restored.access.tools == tools


async def test_access_that_says_nothing_allows_nothing(opened: Ledgers) -> None:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_1')")
    )
    restored = await requests.restore(opened, "req_1")

    assert restored is not None
    assert restored.access == Access()


async def test_the_first_end_stands_and_nothing_is_entered_after_it(opened: Ledgers) -> None:
    request = a_request()
    await opened.runtime.write(requests.create, request=request)
    id_ = request.request_id
    await opened.runtime.write(requests.enter_stage, request_id=id_, stage="runAgent")

    assert await opened.runtime.write(requests.end, request_id=id_, status="failed", error="no")
    assert not await opened.runtime.write(requests.end, request_id=id_, status="done")
    await opened.runtime.write(requests.enter_stage, request_id=id_, stage="finalize")
    stored = await opened.runtime.read(requests.get, request_id=id_)
    assert stored is not None
    assert (stored.status, stored.error, stored.stage) == ("failed", "no", "runAgent")


async def test_a_lineage_holds_everything_below_its_root(opened: Ledgers) -> None:
    root = a_request()
    child = root.child(content="a", agent=Agent(role="worker"))
    grandchild = child.child(content="b", agent=Agent(role="worker"))
    for request in (root, child, grandchild, a_request()):
        await opened.runtime.write(requests.create, request=request)
    found = await opened.runtime.read(requests.lineage, root_request_id=root.request_id)

    assert [(one.id, one.depth) for one in found] == [
        (root.request_id, 0),
        (child.request_id, 1),
        (grandchild.request_id, 2),
    ]
    recent = await opened.runtime.read(requests.recent_roots, limit=5)
    assert len(recent) == 2
