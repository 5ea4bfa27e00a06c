"""What goes with a thread or a time, and what stays."""

from pathlib import Path
from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import forgetting
from unit.ledgers.forgetting.scene import Scene

_MARCH = ("2026-03-01", "2026-04-01")
_IN_MARCH, _IN_MAY = "2026-03-10T12:00:00.000Z", "2026-05-10T12:00:00.000Z"


async def _two_events(scene: Scene) -> None:
    """One in the thread that goes, one in a thread that stays."""
    for thread in ("thr_1", "thr_2"):
        await scene.put("events.threads", id=thread, channel="c")
    await scene.event("evt_1", thread_id="thr_1")
    await scene.event("evt_2", thread_id="thr_2", reply_to_event_id="evt_1")


async def test_a_thread_takes_its_events_and_their_parts(scene: Scene) -> None:
    await _two_events(scene)
    for event in ("evt_1", "evt_2"):
        await scene.participant(event, "sender", None, "x")
        await scene.put("events.attachments", id=f"att_{event}", event_id=event, media_type="text/plain")
        await scene.put("memory.processing_log", processor="p", target_type="event", target_id=event,
                        status="done")  # fmt: skip
    await scene.forget_thread("thr_1")
    assert await scene.left("events.threads") == {"thr_2"}
    assert await scene.left("events.events", "reply_to_event_id") == {None}
    for path in ("event_participants", "attachments"):
        assert await scene.left(f"events.{path}", "event_id") == {"evt_2"}
    assert await scene.left("memory.processing_log", "target_id") == {"evt_2"}


async def test_threads_below_it_go_with_it(scene: Scene) -> None:
    await _two_events(scene)
    await scene.put("events.threads", id="thr_1a", channel="c", parent_thread_id="thr_1")
    await scene.event("evt_1a", thread_id="thr_1a")
    await scene.forget_thread("thr_1")
    assert await scene.left("events.threads") == {"thr_2"}
    assert await scene.left("events.events") == {"evt_2"}


async def test_a_fact_goes_with_what_it_was_learned_from(scene: Scene) -> None:
    await _two_events(scene)
    await scene.episode("epi_1", "evt_1", "evt_2")
    await scene.fact("from_the_event", source_event_id="evt_1")
    await scene.fact("from_another_event", source_event_id="evt_2", source_episode_id="epi_1")
    await scene.fact("from_the_episode", source_episode_id="epi_1")
    await scene.fact("from_nothing")
    await scene.forget_thread("thr_1")
    assert await scene.left("memory.facts") == {"from_another_event", "from_nothing"}
    assert await scene.left("memory.facts", "source_episode_id") == {None}


async def test_an_episode_goes_with_one_of_its_events_and_the_others_can_be_cut_anew(scene: Scene) -> None:
    await _two_events(scene)
    await scene.event("evt_3")
    await scene.episode("epi_1", "evt_1", "evt_2")
    await scene.episode("epi_1b", previous_version_id="epi_1")
    await scene.episode("epi_2", "evt_3")
    for processor in ("episodes", "memory-writer"):
        for event in ("evt_2", "evt_3"):
            await scene.put("memory.processing_log", processor=processor, target_type="event",
                            target_id=event, status="done")  # fmt: skip
    await scene.forget_thread("thr_1")
    assert await scene.left("memory.episodes") == {"epi_2"}
    assert await scene.left("memory.episode_events", "event_id") == {"evt_3"}
    assert await scene.left("memory.processing_log", "processor || ' ' || target_id") == {
        "episodes evt_3",
        "memory-writer evt_2",
        "memory-writer evt_3",
    }


async def test_what_rests_on_a_fact_goes_with_it(scene: Scene) -> None:
    await _two_events(scene)
    await scene.fact("fact_1", source_event_id="evt_1")
    await scene.fact("fact_2")
    await scene.fact("fact_3")
    await scene.observation("obs_1", "fact_1", "fact_2")
    await scene.observation("obs_1b", previous_version_id="obs_1")
    await scene.observation("obs_2", "fact_2", "fact_3")
    for model, source in (("mod_1", "obs_1"), ("mod_2", "obs_2")):
        await scene.put("memory.mental_models", id=model, name=model, content="…")
        await scene.put("memory.mental_model_sources", model_id=model, source_type="observation",
                        source_id=source)  # fmt: skip
    await scene.put("memory.mental_models", id="mod_1b", name="x", content="…", previous_version_id="mod_1")
    await scene.put("memory.causal_links", id="cau_1", cause_fact_id="fact_1", effect_fact_id="fact_2")
    await scene.put("memory.causal_links", id="cau_2", cause_fact_id="fact_2", effect_fact_id="fact_3")
    for fact in ("fact_2", "fact_3"):
        await scene.put("memory.processing_log", processor="consolidation", target_type="fact",
                        target_id=fact, status="done")  # fmt: skip
    await scene.forget_thread("thr_1")
    assert await scene.left("memory.analysis_runs") == {"obs_2"}
    assert await scene.left("memory.mental_models") == {"mod_2"}
    assert await scene.left("memory.causal_links") == {"cau_2"}
    # The fact under an observation that went can be consolidated again.
    assert await scene.left("memory.processing_log", "target_id") == {"fact_3"}


async def test_the_work_on_an_event_goes_with_it_down_to_the_reply(scene: Scene) -> None:
    await _two_events(scene)
    await scene.request("req_1", event_id="evt_1")
    await scene.request("req_2", parent_request_id="req_1", root_request_id="req_1")
    await scene.request("req_3", event_id="evt_2")
    await scene.event("reply", direction="outbound", request_id="req_2", thread_id="thr_2")
    await scene.session("ses_1", thread_id="thr_2")
    await scene.turn("trn_1", "ses_1", 1, request_id="req_2")
    await scene.turn("trn_2", "ses_1", 2, event_id="evt_1")
    await scene.turn("trn_3", "ses_1", 3, event_id="evt_2", request_id="req_3")
    for request in ("req_2", "req_3"):
        await scene.put("runtime.executions", id=f"exe_{request}", request_id=request,
                        root_request_id=request, session_label="l")  # fmt: skip
        await scene.put("runtime.spans", id=f"spn_{request}", request_id=request, root_request_id=request,
                        kind="k", name="n", started_at="2020")  # fmt: skip
    await scene.put("runtime.automations", id="aut_1", name="n", last_error="failed on it")
    await scene.put("runtime.invocations", id="inv_1", automation_id="aut_1", automation_version=1,
                    hook_point="h", request_id="req_2", blocking=1, error="failed on it")  # fmt: skip
    await scene.forget_thread("thr_1")
    assert await scene.left("runtime.requests") == {"req_3"}
    assert await scene.left("events.events") == {"evt_2"}
    assert await scene.left("agents.agent_turns") == {"trn_3"}
    assert await scene.left("runtime.executions") == {"exe_req_3"}
    assert await scene.left("runtime.spans") == {"spn_req_3"}
    assert await scene.left("runtime.invocations") == set()
    assert await scene.left("runtime.automations", "last_error") == {None}


async def test_the_session_of_a_thread_goes_with_those_below_it(scene: Scene) -> None:
    await _two_events(scene)
    await scene.session("ses_1", thread_id="thr_1")
    await scene.session("ses_1a", parent_session_id="ses_1")
    await scene.session("ses_2", thread_id="thr_2")
    for session in ("ses_1", "ses_1a", "ses_2"):
        await scene.turn(f"trn_{session}", session, 0)
    await scene.forget_thread("thr_1")
    assert await scene.left("agents.agent_sessions") == {"ses_2"}
    assert await scene.left("agents.agent_messages", "session_id") == {"ses_2"}


async def test_an_address_book_outlives_the_only_thread_in_which_it_was_used(scene: Scene) -> None:
    await _two_events(scene)
    await scene.entity("ent_met", "Met", source_event_id="evt_1")
    await scene.entity("ent_known", "Known")
    for entity in ("ent_met", "ent_known"):
        await scene.put("identity.contacts", id=f"con_{entity}", entity_id=entity, channel="c")
        await scene.put("events.event_participants", event_id="evt_1", role="recipient", identifier=entity,
                        entity_id=entity, contact_id=f"con_{entity}")  # fmt: skip
    await scene.forget_thread("thr_1")
    assert await scene.left("identity.entities") == {"ent_known"}
    assert await scene.left("identity.contacts") == {"con_ent_known"}


async def test_files_of_attachments_go_unless_they_are_shared_or_lie_elsewhere(
    scene: Scene, tmp_path: Path
) -> None:
    await _two_events(scene)
    home = scene.ledgers.home
    own, shared, outside = home.state / "own.txt", home.state / "shared.txt", tmp_path / "outside.txt"
    for file in (own, shared, outside):
        file.write_text("…")
    paths = [("evt_1", "state/own.txt"), ("evt_1", "state/shared.txt"), ("evt_2", "state/shared.txt"),
             ("evt_1", "../outside.txt"), ("evt_1", "config.toml"), ("evt_1", "data/events.db")]  # fmt: skip
    for number, (event, path) in enumerate(paths):
        await scene.put("events.attachments", id=f"att_{number}", event_id=event, media_type="m", path=path)
    await scene.forget_thread("thr_1")
    assert not own.exists()
    assert shared.exists()
    assert outside.exists()
    assert home.config_file.exists()
    assert await scene.left("events.attachments", "event_id") == {"evt_2"}


@pytest.mark.parametrize(
    ("occurred_at", "goes"),
    [
        ("2026-03-01T00:00:00.000Z", True),
        ("2026-02-28T23:59:59.999Z", False),
        ("2026-03-31T23:59:59.999Z", True),
        ("2026-04-01T00:00:00.000Z", False),
        # As an agent writes it by hand, and as another program exports it.
        ("2026-03-01 00:00:00", True),
        ("2026-02-28 23:59:59", False),
        ("2026-03-01T01:00:00+02:00", False),
        ("2026-04-01T01:00:00+02:00", True),
    ],
)
async def test_a_range_holds_its_start_and_not_its_end(occurred_at: str, goes: bool, scene: Scene) -> None:
    await scene.event("evt_1", occurred_at=occurred_at)
    plan = await scene.preview(forgetting.time_range(*_MARCH))
    assert plan.removed == ({"events.events": 1} if goes else {})


async def test_what_has_no_origin_goes_by_its_own_time_and_the_rest_by_its_origin(scene: Scene) -> None:
    await scene.event("in_march", occurred_at=_IN_MARCH)
    await scene.event("in_may", occurred_at=_IN_MAY)
    times: dict[str, Any] = {"created_at": _IN_MARCH}
    await scene.fact("learned_in_march_from_nothing", **times)
    await scene.fact("learned_in_march_from_may", source_event_id="in_may", **times)
    await scene.fact("learned_in_may_from_march", source_event_id="in_march", created_at=_IN_MAY)
    await scene.request("req_scheduled", created_at=_IN_MARCH)
    await scene.request("req_may", created_at=_IN_MARCH, event_id="in_may")
    await scene.observation("obs_bare", **times)
    await scene.observation("obs_on_may", "learned_in_march_from_may", **times)
    await scene.session("ses_1", created_at="2020-01-01T00:00:00.000Z")
    await scene.turn("trn_across", "ses_1", 1, started_at="2026-02-28T23:00:00Z", ended_at=_IN_MARCH)
    await scene.turn("trn_after", "ses_1", 2, started_at=_IN_MAY)
    await scene.forget_range(*_MARCH)
    assert await scene.left("events.events") == {"in_may"}
    assert await scene.left("memory.facts") == {"learned_in_march_from_may"}
    assert await scene.left("runtime.requests") == {"req_may"}
    assert await scene.left("memory.analysis_runs") == {"obs_on_may"}
    assert await scene.left("agents.agent_turns") == {"trn_after"}


async def test_an_entity_met_in_the_range_stays_while_something_is_known_about_it(scene: Scene) -> None:
    await scene.event("evt_march", occurred_at=_IN_MARCH)
    await scene.event("evt_may", occurred_at=_IN_MAY)
    await scene.entity("ent_only_then", "A", source_event_id="evt_march", created_at=_IN_MARCH)
    await scene.entity("ent_later_too", "B", source_event_id="evt_march", created_at=_IN_MARCH)
    await scene.participant("evt_may", "sender", "ent_later_too")
    await scene.forget_range(*_MARCH)
    assert await scene.left("identity.entities") == {"ent_later_too"}
    assert await scene.left("identity.entities", "source_event_id") == {None}


async def test_a_thread_stays_while_it_holds_an_event(scene: Scene) -> None:
    for thread in ("thr_emptied", "thr_kept"):
        await scene.put("events.threads", id=thread, channel="c", created_at="2020-01-01T00:00:00.000Z")
        await scene.event(f"evt_{thread}", thread_id=thread, occurred_at=_IN_MARCH)
    await scene.event("evt_may", thread_id="thr_kept", occurred_at=_IN_MAY)
    await scene.forget_range(*_MARCH)
    assert await scene.left("events.threads") == {"thr_kept"}


async def test_a_range_in_which_nothing_was_said_is_told(scene: Scene) -> None:
    assert await forgetting.forget(scene.ledgers, forgetting.time_range(*_MARCH), actor="test") is None
    assert await scene.left("runtime.forgets") == set()


@pytest.mark.parametrize(
    ("start", "end"), [("2026-04-01", "2026-03-01"), ("2026-03-01", "2026-03-01"), ("x", "y")]
)
def test_a_range_must_be_one(start: str, end: str) -> None:
    with pytest.raises(UsageError):
        forgetting.time_range(start, end)


async def test_an_unknown_thread_is_refused(scene: Scene) -> None:
    with pytest.raises(UsageError, match="thr_nowhere"):
        await scene.find(lambda c: forgetting.thread(c, "thr_nowhere"))


async def test_statistics_of_the_planner_hold_no_samples_of_it(scene: Scene) -> None:
    """ANALYZE copies values out of the indexes."""
    await scene.put("events.threads", id="thr_1", channel="c")
    for number in range(50):
        await scene.event(f"evt_{number}", thread_id="thr_1" if number % 2 else None,
                          external_id=f"xylomorph-{number}" if number % 2 else f"other-{number}")  # fmt: skip
    await scene.ledgers.events.maintain(lambda connection: connection.execute("ANALYZE"))
    file = scene.ledgers.home.ledger("events")
    await scene.ledgers.events.maintain(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    samples = "CAST(sample AS TEXT)"
    assert any("xylomorph" in sample for sample in await scene.left("events.sqlite_stat4", samples))
    await scene.forget_thread("thr_1")
    assert b"xylomorph" not in file.read_bytes()


async def test_words_of_a_script_without_spaces_go_from_their_index(scene: Scene) -> None:
    await scene.put("events.threads", id="thr_1", channel="c")
    await scene.event("evt_1", "她对花生过敏", thread_id="thr_1")
    await scene.event("evt_2", "她住在柏林")
    await scene.forget_thread("thr_1")
    assert "花生过" not in await scene.left("events.events_unspaced_terms", "term")
    assert "住在柏" in await scene.left("events.events_unspaced_terms", "term")
    assert "花生过".encode() not in scene.ledgers.home.ledger("events").read_bytes()
