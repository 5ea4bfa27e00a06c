"""`nexus followups`: what is listed, and what is closed."""

from datetime import UTC, datetime

from click.testing import CliRunner, Result

from nexus.cli import program
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import follow_ups
from nexus.ledgers.memory.follow_ups import NewFollowUp


def typed(*words: str) -> Result:
    return CliRunner().invoke(program, ["followups", *words])


async def promise(opened: Ledgers) -> None:
    new = NewFollowUp(
        id="fup_01KA0000000000000000ABCDEF",
        event_id="evt_1",
        reply_thread_id=None,
        source_request_id=None,
        promiser="owner",
        promiser_entity_id=None,
        promiser_name=None,
        recipient_entity_id=None,
        recipient_name="Jonas",
        promise="I'll send Jonas the slides.",
        due_at=None,
        raise_at=None,
        created_at=datetime(2026, 11, 19, tzinfo=UTC).isoformat(),
    )
    async with opened:
        await opened.memory.write(follow_ups.add, [new])


def test_without_any_there_is_nothing_to_list(home: Home) -> None:
    assert typed().output == "No follow-ups.\n"


def test_a_promise_is_listed_postponed_and_closed(home: Home) -> None:
    import asyncio

    from nexus.config import LedgersConfig

    asyncio.run(promise(Ledgers(home, LedgersConfig())))
    line = "You promised Jonas: “I'll send Jonas the slides.” [ABCDEF]"
    assert typed().output == f"{line}\n"
    assert typed("later", "abcdef", "tomorrow", "at", "9").output.startswith("Later: You promised Jonas")
    assert "Due" in typed().output
    assert typed("done", "ABCDEF").output.endswith("[ABCDEF], done\n")
    assert typed().output == "No follow-ups.\n"
    assert typed("list", "--all").output.endswith(", done\n")
    assert "Unknown follow-up" in str(typed("wrong", "nosuch").exception)
