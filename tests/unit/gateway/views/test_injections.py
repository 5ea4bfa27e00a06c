"""What the memory offered for a request, and where it comes from."""

from nexus.gateway.views import requests
from nexus.ledgers.runtime import injections as stored
from nexus.ledgers.runtime.injections import Injection
from unit.gateway.scene import Scene


def offered(number: int, item_id: str, *, injected: bool, kind: str = "fact") -> Injection:
    return Injection(
        id=f"inj_{number}",
        invocation_id="inv_1",
        request_id="req_WORKER1",
        root_request_id="req_ROOT1",
        execution_id=None,
        rank=number,
        item_kind=kind,
        item_id=item_id,
        text_sha256="",
        score=1.0,
        probability=0.9,
        why="it names the same person",
        decided_by="triage",
        injected=injected,
        created_at="2026-05-01T10:00:00.000Z",
    )


async def test_each_is_told_with_its_text_and_the_message_behind_it(scene: Scene) -> None:
    await scene.lineage()
    (event_id,) = await scene.say("I am allergic to nuts")
    fact = await scene.remember("fact", fact="The owner is allergic to nuts", event_id=event_id)
    rows = [
        offered(1, fact["id"], injected=True),
        offered(2, event_id, injected=False, kind="event"),
        offered(3, "fact_gone", injected=True),
    ]
    await scene.ledgers.runtime.write(stored.add, rows)
    first, second, third = await requests.load_offers(scene.ledgers, "req_ROOT1")
    assert (first.text, first.source_event_id) == ("The owner is allergic to nuts", event_id)
    assert second.page == f"/events/{event_id}"
    assert (third.text, third.page) == ("", None)


async def test_a_conversation_shows_only_what_was_injected(scene: Scene) -> None:
    await scene.lineage()
    fact = await scene.remember("fact", fact="The owner is allergic to nuts")
    rows = [offered(1, fact["id"], injected=True), offered(2, fact["id"], injected=False)]
    await scene.ledgers.runtime.write(stored.add, rows)
    found = await requests.load_injected(scene.ledgers, ["req_ROOT1", None])
    assert [each.injection.rank for each in found["req_ROOT1"]] == [1]
