"""Requests in the ledger: created once, ended once, restored as they were."""

from functools import partial

import apsw
import pytest

from nexus.ledgers import Ledgers, events
from nexus.ledgers.runtime import dispatches, executions, requests
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


async def test_what_became_of_an_event_is_told_by_its_run_then_by_its_end(opened: Ledgers) -> None:
    """However their ids and times sort: the clock may have been ahead when the first ones came in."""
    (event_id,) = await opened.events.write(events.append, [events.NewEvent(channel="cli", content="Hi")])

    async def deciding() -> str | None:
        found = await opened.runtime.read(requests.for_event, event_id=event_id)
        return found and found.id

    async def add(id_: str, created_at: str) -> None:
        made = a_request(request_id=id_, created_at=created_at)
        made.event.id = event_id
        await opened.runtime.write(requests.create, request=made)

    assert await deciding() is None
    await add("req_z", "2999-01-01T00:00:00.000Z")
    await opened.runtime.write(requests.end, request_id="req_z", status="failed")
    await add("req_y", "2998-01-01T00:00:00.000Z")
    assert await deciding() == "req_y", "it is on its way"
    await add("req_b", "2026-01-01T00:00:00.000Z")
    await opened.runtime.write(requests.end, request_id="req_b", status="denied")
    assert await deciding() == "req_b", "it was decided"
    await add("req_a", "2025-01-01T00:00:00.000Z")
    run = executions.NewExecution(
        id="exe_a",
        request_id="req_a",
        session_label="main",
        lane="chat",
        work="agent",
        mode="followup",
        input=None,
    )
    await opened.runtime.write(executions.enqueue, execution=run)
    assert await deciding() == "req_a", "a run works on it"


async def test_what_a_dead_process_left_is_ended_though_its_clock_was_ahead(opened: Ledgers) -> None:
    ahead = a_request(request_id="req_z", created_at="2999-01-01T00:00:00.000Z")
    await opened.runtime.write(requests.create, request=ahead)
    last = await opened.runtime.read(requests.last_rowid)
    await opened.runtime.write(requests.create, request=a_request(request_id="req_a"))

    def end(connection: apsw.Connection, made_before: str | None) -> int:
        return requests.end_orphans(connection, last, made_before)

    assert await opened.runtime.write(end, "2026-01-01") == 0, "another process may be at it"
    assert await opened.runtime.write(end, None) == 1
    stored = await opened.runtime.read(requests.get, request_id="req_a")
    assert stored is not None
    assert stored.status == "running", "this process took it in"


async def test_a_job_that_is_resumed_opens_its_request_again(opened: Ledgers) -> None:
    """A crash between its request and its invocation: meanwhile nothing seemed to work on it."""
    request = a_request()

    async def find_status() -> str:
        stored = await opened.runtime.read(requests.get, request_id=request.request_id)
        assert stored is not None
        return stored.status

    await opened.runtime.write(requests.create, request=request)
    last = await opened.runtime.read(requests.last_rowid)
    await opened.runtime.write(requests.end_orphans, last_rowid=last, made_before=None)
    assert await find_status() == "failed"
    await opened.runtime.write(requests.create, request=request)
    assert await find_status() == "running"
    await opened.runtime.write(requests.end, request_id=request.request_id, status="done")
    await opened.runtime.write(requests.create, request=request)
    assert await find_status() == "done"


async def test_runs_of_a_session_follow_each_other_as_they_were_recorded(opened: Ledgers) -> None:
    """An id from a clock that was ahead sorts behind all that follow once it is right."""
    request = a_request()
    await opened.runtime.write(requests.create, request=request)
    for id_ in ("exe_m", "exe_z", "exe_a"):
        run = executions.NewExecution(
            id=id_,
            request_id=request.request_id,
            session_label="main",
            lane="chat",
            work="agent",
            mode="followup",
            input=None,
        )
        await opened.runtime.write(executions.enqueue, execution=run)

    async def after(execution_id: str) -> list[str]:
        return await opened.runtime.read(executions.list_begun_in, session_label="main", after=execution_id)

    assert await opened.runtime.read(executions.newest_in, session_label="main") == "exe_a"
    assert await after("exe_z") == ["exe_a"]
    assert await after("exe_unknown") == ["exe_m", "exe_z", "exe_a"]
    runs = await opened.runtime.read(
        executions.of_request, request_id=request.request_id, session_label="main"
    )
    assert [each.id for each in runs] == ["exe_m", "exe_z", "exe_a"]
