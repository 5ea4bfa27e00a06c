"""What agents ran, and what is left of it when a thread or somebody is forgotten."""

import pytest

from unit.ledgers.forgetting.scene import Scene


@pytest.fixture
async def lineage(scene: Scene) -> Scene:
    """A message in a thread, a manager's run with a recorded step, and a worker whose result it got."""
    await scene.put("events.threads", id="thr_1", channel="c")
    await scene.event("evt_1", thread_id="thr_1")
    await scene.request("req_1", event_id="evt_1", thread_id="thr_1")
    await scene.request("req_2", parent_request_id="req_1", root_request_id="req_1")
    for execution, request in (("exe_1", "req_1"), ("exe_2", "req_2")):
        await scene.put(
            "runtime.executions",
            id=execution,
            request_id=request,
            root_request_id="req_1",
            session_label=execution,
        )
    await scene.put(
        "runtime.steps", execution_id="exe_2", number=0, name="model", failed=0, outcome='"for Zo\u00eb"'
    )
    await scene.put(
        "runtime.dispatches",
        id="dsp_1",
        parent_request_id="req_1",
        root_request_id="req_1",
        parent_session_label="exe_1",
        parent_execution_id="exe_1",
        call_id="c",
        worker_request_id="req_2",
        worker_session_label="exe_2",
        execution_id="exe_2",
        task="Write to Zo\u00eb",
        delivered_to="exe_1",
    )
    await scene.put(
        "runtime.spans",
        id="spn_1",
        request_id="req_2",
        root_request_id="req_1",
        execution_id="exe_2",
        kind="model",
        name="call",
        started_at="2020",
    )
    await scene.put(
        "runtime.usage",
        id="use_1",
        request_id="req_2",
        root_request_id="req_1",
        provider="p",
        model="m",
        span_id="spn_1",
    )
    return scene


async def test_with_a_thread_goes_all_work_on_it_and_what_it_cost_stays(lineage: Scene) -> None:
    await lineage.forget_thread("thr_1")

    for table, column in (("executions", "id"), ("steps", "number"), ("dispatches", "id"), ("spans", "id")):
        assert await lineage.left(f"runtime.{table}", column) == set(), table
    assert await lineage.left("runtime.usage") == {"use_1"}


async def test_a_task_that_names_somebody_loses_its_words_and_stays_delivered(lineage: Scene) -> None:
    await lineage.entity("ent_1", "Zo\u00eb")
    await lineage.forget_entity("ent_1")

    assert await lineage.left("runtime.dispatches", "task") == {""}
    assert await lineage.left("runtime.dispatches", "delivered_to") == {"exe_1"}
    assert await lineage.left("runtime.steps", "number") == set()


async def test_access_that_names_somebody_becomes_none(scene: Scene) -> None:
    await scene.request("req_1", access_json='{"directories": [{"path": "/home/ottoline"}]}')
    await scene.entity("ent_1", "Ottoline")
    await scene.forget_entity("ent_1")

    assert await scene.left("runtime.requests", "access_json") == {"{}"}


async def test_a_fork_loses_its_own_summary_of_a_turn_that_goes(scene: Scene) -> None:
    await scene.put("events.threads", id="thr_1", channel="c")
    await scene.event("evt_1", thread_id="thr_1")
    await scene.session("ses_1")
    await scene.turn("trn_0", "ses_1", 0)
    await scene.turn("trn_1", "ses_1", 1, event_id="evt_1")
    await scene.session("ses_after", parent_session_id="ses_1", forked_at_position=2)
    await scene.turn("trn_after", "ses_after", 2, kind="summary")
    await scene.session("ses_later", parent_session_id="ses_after", forked_at_position=2)
    await scene.turn("trn_later", "ses_later", 2, kind="summary")
    await scene.session("ses_before", parent_session_id="ses_1", forked_at_position=1)
    await scene.turn("trn_before", "ses_before", 2, kind="summary")
    await scene.forget_thread("thr_1")

    assert await scene.left("agents.agent_turns") == {"trn_0", "trn_before"}


async def test_what_runs_said_while_they_ran_goes_but_for_one_under_way(lineage: Scene) -> None:
    await lineage.request("req_9")
    await lineage.put(
        "runtime.executions",
        id="exe_9",
        request_id="req_9",
        root_request_id="req_9",
        session_label="s",
        status="running",
    )
    streams = lineage.ledgers.home.run / "streams"
    streams.mkdir(parents=True)
    for name in ("exe_1", "exe_9", "exe_unknown"):
        (streams / f"{name}.jsonl").write_text('{"kind": "text", "text": "hello"}')
    await lineage.forget_thread("thr_1")

    assert {path.stem for path in streams.iterdir()} == {"exe_9"}
