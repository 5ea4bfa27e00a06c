"""Workers: dispatched, heard of once, and never able to reach further than who dispatched them."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from apps import app_on, dispatching, give_up, granted, heard, send, settings
from memory_writers import quiet, rows
from nexus.app import App
from nexus.broker.tools import Context, Tool
from nexus.broker.tools.tool import parameters
from nexus.engine.errors import WorkCancelledError, WorkFailedError
from nexus.home import Home
from nexus.ledgers.runtime import dispatches, executions, requests, usage
from nexus.ledgers.runtime.dispatches import Dispatch
from nexus.request import Access, Agent, Event, Request
from nexus.testing import Hold, ModelRequest, ModelServer, ToolCall, Turn


async def given_by(app: App, session: str = "main") -> list[Dispatch]:
    def read(connection: apsw.Connection) -> list[Dispatch]:
        query = "SELECT id FROM dispatches WHERE parent_session_label = ? ORDER BY created_at DESC, id DESC"
        found = [dispatches.get(connection, str(row[0])) for row in connection.execute(query, (session,))]
        return [one for one in found if one]

    return await app.ledgers.runtime.read(read)


def from_manager(request: ModelRequest) -> bool:
    return "Plan the trip" in str(request.json)


async def test_a_manager_hands_out_work_and_answers_with_its_results(home: Home, server: ModelServer) -> None:
    server.when(from_manager).script(*dispatching("Find a train", "Find a room", then=heard))
    server.when(last_user="Find a train").script("The 9:15")
    server.when(last_user="Find a room").script("Room 7")
    async with app_on(home, server) as app:
        result = await (await app.send("Plan the trip")).result()
        given = await given_by(app)
        lineage = await app.ledgers.runtime.read(requests.lineage, root_request_id=result.request_id)
        spent = await app.ledgers.runtime.read(usage.of_root, root_request_id=result.request_id)
    assert result.response.content.count("<worker_result") == 2
    assert "The 9:15" in result.response.content
    assert "Room 7" in result.response.content
    assert {one.status for one in given} == {"done"}
    assert all(one.delivered_to for one in given)
    assert [request.status for request in lineage] == ["done"] * 3
    assert {request.parent_request_id for request in lineage[1:]} == {result.request_id}
    assert spent.calls == len(server.exchanges) == 5
    assert spent.output_tokens == server.totals().usage.output_tokens
    server.assert_exhausted()


async def test_a_dispatch_that_waits_returns_the_result(home: Home, server: ModelServer) -> None:
    # Small models fill in every argument.
    one = send("dispatch", text="Find a train", wait=True, worker="all", timeout_ms=0)
    other = send("dispatch", text="Find a room", wait=True)
    server.when(from_manager).script(Turn("", [one, other]), heard)
    server.when(last_user="Find a train").script("The 9:15")
    server.when(last_user="Find a room").script("Room 7")
    async with app_on(home, server) as app:
        result = await (await app.send("Plan the trip")).result()
        given = await given_by(app)
    assert "The 9:15" in result.response.content
    assert "Room 7" in result.response.content
    assert [one.status for one in given] == ["done", "done"]
    assert {one.delivered_to for one in given} == {result.execution_id}
    server.assert_exhausted()


async def test_waiting_for_nobody_says_how_to_start_a_worker(home: Home, server: ModelServer) -> None:
    server.when(from_manager).script(Turn("", [send("wait", text="Find a train")]), "Nobody.")
    async with app_on(home, server) as app:
        await (await app.send("Plan the trip")).result()
    told = str(server.requests[-1].json["messages"][-1])
    assert "no worker to wait for" in told
    assert "op=dispatch" in told


async def test_a_result_that_nobody_waited_for_comes_as_a_message(home: Home, server: ModelServer) -> None:
    server.when(last_user="worker_result").script(lambda r: Turn(f"Heard: {r.last_user}"))
    server.when(last_user="Find a train").script(
        Turn("The 9:15", faults=[Hold(gate="train", after_deltas=0)])
    )
    server.when(from_manager).script(Turn("", [send("dispatch", text="Find a train")]), "I am on it.")
    async with app_on(home, server) as app:
        first = await (await app.send("Plan the trip")).result()
        server.gate("train").open()
        [given] = await given_by(app)
        await app.queue.run(given.execution_id).result()
        [given] = await given_by(app)
        assert given.delivered_to is not None
        second = await app.broker.run(given.delivered_to).result()
        request = await app.ledgers.runtime.read(requests.get, request_id=first.request_id)
    assert first.response.content == "I am on it."
    assert "The 9:15" in second.response.content
    assert second.request_id == first.request_id
    assert request is not None
    assert request.status == "done"


async def test_a_request_ends_when_the_run_of_a_later_one_got_its_result(
    home: Home, server: ModelServer
) -> None:
    held = Turn("The 9:15", faults=[Hold(gate="train", after_deltas=0)])
    server.when(last_user="Find a train").script(held)
    server.when(from_manager).script(
        Turn("", [send("dispatch", text="Find a train")]),
        "I am on it.",
        Turn("", [send("wait")]),
        heard,
    )
    async with app_on(home, server) as app:
        first = await (await app.send("Plan the trip")).result()
        asked = await app.send("And?")
        while (await given_by(app))[0].delivered_to is None:
            await asyncio.sleep(0.01)
        server.gate("train").open()
        second = await asked.result()
        ended = [
            await app.ledgers.runtime.read(requests.get, request_id=each.request_id)
            for each in (first, second)
        ]
    assert "The 9:15" in second.response.content
    assert [request and request.status for request in ended] == ["done", "done"]


async def test_a_result_reaches_a_run_that_is_still_at_work(home: Home, server: ModelServer) -> None:
    server.when(last_user="Find a train").script("The 9:15")
    dispatch = Turn("", [send("dispatch", text="Find a train")])
    slow = Turn("", [ToolCall("agent_send", {"op": "status"})], faults=[Hold(gate="manager")])
    server.when(from_manager).script(dispatch, slow, lambda r: Turn(f"Heard: {r.last_user}"))
    async with app_on(home, server) as app:
        asked = await app.send("Plan the trip")
        await server.until(lambda: server.gate("manager").waiting)
        [given] = await given_by(app)
        await app.queue.run(given.execution_id).result()
        server.gate("manager").open()
        result = await asked.result()
        [given] = await given_by(app)
        assert given.delivered_to is not None
        taken = await app.queue.run(given.delivered_to).state()
    assert "The 9:15" in result.response.content
    assert taken.taken_by == result.execution_id
    server.assert_exhausted()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"max_depth": 0}, "limit of depth is 0"), ({"max_workers": 1}, "1 workers are at work")],
)
async def test_depth_and_number_of_workers_are_limited(
    home: Home, server: ModelServer, limits: dict[str, Any], expected: str
) -> None:
    server.when(last_user="Find").always(Turn("Found", faults=[Hold(gate="found")]))
    server.when(from_manager).script(
        Turn("", [send("dispatch", text="Find 1")]),
        Turn("", [send("dispatch", text="Find 2")]),
        lambda r: Turn(" ".join(r.tool_results)),
    )
    async with app_on(home, server, **limits) as app:
        result = await (await app.send("Plan the trip")).result()
        server.gate("found").open()
        for one in await given_by(app):
            await app.queue.run(one.execution_id).result()
    assert expected in result.response.content


async def test_a_worker_that_is_not_of_the_session_is_not_told_about(home: Home, server: ModelServer) -> None:
    server.when(last_user="Find").script("Found")
    server.when(from_manager).script(*dispatching("Find", then="Done"))
    async with app_on(home, server) as app:
        await (await app.send("Plan the trip")).result()
        [given] = await given_by(app)
        server.script(Turn("", [send("wait", worker=given.id)]), lambda r: Turn(r.tool_results[0]))
        other = await (await app.send("And here?", session_label="other")).result()
        server.script(Turn("", [send("wait", worker=given.id)]), lambda r: Turn(r.tool_results[0]))
        again = await (await app.send("Once more")).result()
    assert "You have no worker" in other.response.content
    assert "Found" in again.response.content, "asked for by its id, a result is told again"


async def test_stopping_a_run_stops_its_workers(home: Home, server: ModelServer) -> None:
    server.when(last_user="Hello?").script("Still here")
    server.when(last_user="Find").script(Turn("Found", faults=[Hold(gate="never")]))
    server.when(from_manager).script(*dispatching("Find", then="never said"))
    async with app_on(home, server) as app:
        asked = await app.send("Plan the trip")
        await server.until(lambda: server.gate("never").waiting)
        assert await asked.cancel()
        with pytest.raises(WorkCancelledError):
            await asked.result()
        [given] = await given_by(app)
        with pytest.raises(WorkCancelledError):
            await app.queue.run(given.execution_id).result()
        after = await (await app.send("Hello?")).result()
        runs = await app.ledgers.runtime.read(executions.list_begun_in, session_label="main", after=asked.id)
        request = await app.ledgers.runtime.read(requests.get, request_id=given.parent_request_id)
    assert request is not None
    assert request.status == "cancelled"
    assert given.status == "cancelled"
    assert after.response.content == "Still here"
    assert runs == [after.execution_id], "nobody is told of a worker that was stopped with its manager"


async def test_a_manager_can_stop_a_worker(home: Home, server: ModelServer) -> None:
    server.when(last_user="Find").script(Turn("Found", faults=[Hold(gate="never")]))
    server.when(from_manager).script(
        Turn("", [send("dispatch", text="Find")]),
        Turn("", [send("cancel")]),
        lambda r: Turn(" ".join(r.tool_results)),
    )
    async with app_on(home, server) as app:
        result = await (await app.send("Plan the trip")).result()
        [given] = await given_by(app)
    assert f"{given.id} cancelled" in result.response.content
    assert given.status == "cancelled"


async def test_a_worker_that_fails_is_told_as_failed(home: Home, server: ModelServer) -> None:
    server.when(from_manager).script(*dispatching("Find", then=heard))
    async with app_on(home, server) as app:
        result = await (await app.send("Plan the trip")).result()
    assert 'outcome="failed"' in result.response.content
    assert "No model answered" in result.response.content


async def test_what_a_failed_run_waited_for_comes_as_messages(home: Home, server: ModelServer) -> None:
    server.when(last_user="worker_result").always(lambda r: Turn(f"Heard: {r.last_user}"))
    server.when(last_user="Find a train").script("The 9:15")
    server.when(last_user="Find a room").script(Turn("Room 7", faults=[Hold(gate="room")]))
    server.when(from_manager).script(*dispatching("Find a train", "Find a room", then="never said"))
    async with app_on(home, server) as app:
        request = Request(event=Event(content="Plan the trip"), agent=Agent(session_label="main"))
        request.access = Access(level="owner", tools=None)
        await app.ledgers.runtime.write(requests.create, request=request)
        context = await app.broker.assemble_context(request, session_label="main", task="Plan the trip")
        context.timeout_ms = 20_000
        with pytest.raises(WorkFailedError, match="exceeded"):
            await (await app.broker.start_execution(request, context)).result()
        server.gate("room").open()
        given = {one.task: one for one in await given_by(app)}
        await app.queue.run(given["Find a room"].execution_id).result()
        given = {one.task: one for one in await given_by(app)}
        told = {
            task: (await app.broker.run(one.delivered_to or "").result()).response.content
            for task, one in given.items()
        }
    assert "The 9:15" in told["Find a train"], "it had ended before the run that waited failed"
    assert "Room 7" in told["Find a room"]


async def test_a_read_only_worker_cannot_write_where_its_manager_can(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    write = Turn("", [ToolCall("write", {"path": "note.txt", "content": "hi"})])
    server.when(last_user="Note it").script(write, lambda r: Turn(r.tool_results[0]))
    server.when(from_manager).script(
        Turn("", [send("dispatch", text="Note it", read_only=True)]),
        Turn("", [send("wait")]),
        heard,
    )
    async with granted(home, server, f"{desk}:rw") as app:
        result = await (await app.send("Plan the trip")).result()
    assert not (desk / "note.txt").exists()
    assert "note.txt" in result.response.content


async def test_a_read_only_worker_cannot_call_what_no_sandbox_holds(home: Home, server: ModelServer) -> None:
    put: list[str] = []

    async def run(arguments: Mapping[str, Any], context: Context) -> str:
        put.append(arguments["text"])
        return "Put."

    shelf = Tool(
        name="shelf__put", description="Put.", parameters=parameters("text", text={"type": "string"}), run=run
    )
    for task in ("Note it freely", "Note it"):
        call = Turn("", [ToolCall("shelf__put", {"text": task})])
        server.when(last_user=task).script(call, lambda r: Turn(r.tool_results[0]))
    server.when(from_manager).script(
        Turn("", [send("dispatch", text="Note it freely")]),
        Turn("", [send("wait")]),
        Turn("", [send("dispatch", text="Note it", read_only=True)]),
        Turn("", [send("wait")]),
        heard,
    )
    async with app_on(home, server) as app:
        app.broker.add_tools([shelf])
        result = await (await app.send("Plan the trip")).result()
    assert put == ["Note it freely"]
    assert "`shelf__put` may not be used here" in result.response.content


async def test_two_sessions_do_not_share_their_workers(home: Home, server: ModelServer) -> None:
    server.when(last_user="Find").script("Found")
    server.when(from_manager).script(*dispatching("Find", then="Done"))
    async with app_on(home, server) as app:
        await (await app.send("Plan the trip")).result()
        server.script(Turn("", [send("status")]), lambda r: Turn(r.tool_results[0]))
        other = await (await app.send("Anybody?", session_label="other")).result()
    assert other.response.content == "No workers."


async def test_a_worker_hands_out_work_itself(home: Home, server: ModelServer) -> None:
    server.when(last_user="Count the pages").script("300")
    server.when(last_user="Describe the book").script(*dispatching("Count the pages", then=heard))
    server.when(from_manager).script(*dispatching("Describe the book", then=heard))
    async with app_on(home, server) as app:
        result = await (await app.send("Plan the trip")).result()
        lineage = await app.ledgers.runtime.read(requests.lineage, root_request_id=result.request_id)
    assert "300" in result.response.content
    assert [request.depth for request in lineage] == [0, 1, 2]
    assert lineage[2].parent_request_id == lineage[1].id


async def test_what_a_worker_leaves_running_is_stopped(home: Home, server: ModelServer) -> None:
    server.when(last_user="Count the pages").script(Turn("300", faults=[Hold(gate="never")]))
    server.when(last_user="Describe the book").script(
        Turn("", [send("dispatch", text="Count the pages")]), "A book."
    )
    server.when(from_manager).script(*dispatching("Describe the book", then=heard))
    async with app_on(home, server) as app:
        result = await (await app.send("Plan the trip")).result()
        [worker] = await given_by(app)
        [left] = await given_by(app, worker.worker_session_label)
        with pytest.raises(WorkCancelledError):
            await app.queue.run(left.execution_id).result()
        [left] = await given_by(app, worker.worker_session_label)
    assert "A book." in result.response.content
    assert left.status == "cancelled"


async def test_the_result_of_a_worker_whose_dispatcher_crashed_too_often_is_told(
    home: Home, server: ModelServer
) -> None:
    server.when(last_user="Find a train").script(Turn("The 9:15", faults=[Hold(gate="train")]))
    server.when(from_manager).script(Turn("", [send("dispatch", text="Find a train", wait=True)]))
    async with app_on(home, server) as app:
        asked = await app.send("Plan the trip")
        await server.until(lambda: server.gate("train").waiting, 30_000)
    give_up(home, asked.id)
    server.reset()
    server.when(last_user="Find a train").always("The 9:15")
    server.always("You take the 9:15.")
    async with app_on(home, server) as app:
        with pytest.raises(WorkFailedError, match="crashed each time"):
            await app.broker.run(asked.id).result()
        await quiet(app)
        (given,) = await given_by(app)
        assert given.delivered_to not in {None, asked.id}
        told = await app.queue.run(given.delivered_to or "").state()
        root = await app.ledgers.runtime.read(requests.get, request_id=given.parent_request_id)
    assert (given.status, told.status) == ("done", "done")
    assert "The 9:15" in str(told.input)
    assert root is not None
    assert root.status == "done", "it was answered by the run that heard of it"


async def test_the_workers_of_a_run_that_is_cancelled_while_it_waits_to_go_on_are_stopped(
    home: Home, server: ModelServer
) -> None:
    server.when(last_user="Find a train").script(Turn("The 9:15", faults=[Hold(gate="train")]))
    server.when(from_manager).script(
        Turn("", [send("dispatch", text="Find a train")]), Turn("Soon.", faults=[Hold(gate="plan")])
    )
    async with app_on(home, server) as app:
        app.engine.settings = replace(app.engine.settings, stop_grace_ms=50)
        asked = await app.send("Plan the trip")
        await server.until(lambda: server.gate("train").waiting and server.gate("plan").waiting, 30_000)
    async with App(home, settings(server), serve=False) as app:
        assert (await app.engine.show(asked.id)).state == "queued"
        assert await app.broker.run(asked.id).cancel()
    server.reset()
    server.always("You take the 9:15.")
    async with app_on(home, server) as app:
        await quiet(app)
        (given,) = await given_by(app)
        worker = await app.queue.run(given.execution_id).state()
        states = await rows(app, "runtime", "SELECT status FROM requests")
    assert (given.status, worker.status) == ("cancelled", "cancelled")
    assert set(states) == {("cancelled",)}
    assert server.requests == []
