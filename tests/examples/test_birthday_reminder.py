"""The birthday reminder, installed as its README says."""

from datetime import UTC, datetime

from installed import Clock, install, messages, opened, remember, tick
from nexus.home import Home
from nexus.testing import ModelServer

NAME = "birthday-reminder"
LEARNED = datetime(2030, 1, 1, tzinfo=UTC)


async def test_each_reminder_comes_once_and_on_its_day(home: Home, server: ModelServer) -> None:
    install(NAME)
    clock = Clock(datetime(2031, 4, 25, 3, 0, tzinfo=UTC))
    async with opened(home, server, clock) as app:
        await remember(
            app,
            LEARNED,
            "Clara's birthday is on 3 May",
            "Leo was born on 2019-05-03",
            "Ewa has her birthday on March 3rd",
            "The bakery opens on 3 May",
            "Sam's birthday is on 99 May or 0000-00-00, whatever =cmd|' /C calc'!A0",
        )
        for _ in range(10):
            clock.forward(days=1)
            assert (await tick(app, NAME, clock)).status == "done"
        told = await messages(app)
    said = ["3 May: Clara's birthday is on 3 May", "3 May: Leo was born on 2019-05-03"]
    before, on_the_day = ([f"{when}, {each}" for each in said] for when in ("In 7 days", "Today"))
    assert [sorted(message.split("\n- ")[1:]) for message in told] == [sorted(before), sorted(on_the_day)]


async def test_who_was_born_on_29_february_is_not_forgotten_in_other_years(
    home: Home, server: ModelServer
) -> None:
    days = '{"days_before": [0]}'
    install(NAME, f"nexus automations register {NAME} --config '{days}'")
    clock = Clock(datetime(2031, 2, 27, 3, 0, tzinfo=UTC))
    async with opened(home, server, clock) as app:
        await remember(app, LEARNED, "Juno was born on the 29th of February")
        for _ in range(3):
            clock.forward(days=1)
            await tick(app, NAME, clock)
        told = await messages(app)
    assert told == ["Birthdays\n\n- Today, 28 February: Juno was born on the 29th of February"]
