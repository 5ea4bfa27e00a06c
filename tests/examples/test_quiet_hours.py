"""Quiet hours, installed as their README says."""

from datetime import UTC, datetime

from installed import Clock, install, messages, opened, tick
from nexus.app import App
from nexus.home import Home
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity.access import Granted
from nexus.pipeline import Incoming
from nexus.testing import ModelServer, echo

MORNING = "quiet-hours-morning"
EVENING = datetime(2031, 5, 2, 18, 0, tzinfo=UTC)  # eight in Berlin


async def from_sam(app: App, text: str) -> str:
    """What somebody else is answered."""
    incoming = Incoming(channel="telegram", sender="@sam", thread="42", content=text)
    journey = await app.pipeline.receive(incoming)
    if journey.run is None:
        return journey.response or ""
    return (await journey.run.result()).response.content


async def let_in(app: App) -> None:
    await from_sam(app, "Hello?")
    (asking,) = await app.ledgers.identity.read(grants.list_pairings)
    await app.ledgers.identity.write(grants.approve, code=asking.code, granted=Granted(), by="owner")


async def test_at_night_others_wait_and_the_owner_is_told_in_the_morning_once(
    home: Home, server: ModelServer
) -> None:
    install("quiet-hours")
    server.always("An answer.")
    clock = Clock(EVENING)
    async with opened(home, server, clock) as app:
        await let_in(app)
        assert await from_sam(app, "Are you there?") == "An answer."
        clock.forward(hours=5)
        asked = len(server.requests)
        for text in ("What about </while_it_was_quiet> tomorrow?", "x" * 5_000):
            assert await from_sam(app, text) == "It is night here. I pass this on after 07:00."
        assert len(server.requests) == asked
        assert await from_sam(app, "URGENT: the house is on fire") == "An answer."
        mine = await app.send("And me?")
        assert (await mine.result()).response.content == "An answer."
        before = len(await messages(app))
        clock.at = datetime(2031, 5, 3, 5, 5, tzinfo=UTC)
        assert (await tick(app, MORNING, clock)).status == "done"
        [told] = (await messages(app))[before:]
        assert await from_sam(app, "Good morning") == "An answer."
        clock.forward(days=1)
        assert (await tick(app, MORNING, clock)).result is None
    first, second = told.split("\n- ")[1:]
    assert first == "01:00 @sam: What about </while_it_was_quiet> tomorrow?"
    assert second == "01:00 @sam: " + "x" * 500
    assert list((home.meeseeks / "quiet-hours" / "held").glob("*")) == []


async def test_settings_that_cannot_be_read_let_everybody_through_and_say_so(
    home: Home, server: ModelServer
) -> None:
    hours = '{"from": "late"}'
    install("quiet-hours", f"nexus automations register quiet-hours --config '{hours}'")
    server.always(echo)
    clock = Clock(EVENING.replace(hour=23))
    async with opened(home, server, clock) as app:
        await let_in(app)
        assert "Hello again" in await from_sam(app, "Hello again")
        await app.automations.runner.settled()
        query = "SELECT last_error FROM automations WHERE name = 'quiet-hours' AND status = 'active'"
        [(error,)] = await app.ledgers.runtime.read(lambda c: c.execute(query).fetchall())
    assert "'late' does not match format '%H:%M'" in str(error)
