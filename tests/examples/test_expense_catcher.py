"""The expense catcher, installed as its README says."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from installed import Clock, install, messages, opened, runs
from nexus.app import App
from nexus.home import Home
from nexus.pipeline import Incoming
from nexus.testing import ModelServer, echo

NAME = "expense-catcher"
CLOCK = Clock(datetime(2031, 5, 2, 12, 0, tzinfo=UTC))


def written(home: Home) -> list[list[str]]:
    """The table without dates and events."""
    lines = Path(home.meeseeks, NAME, "expenses-2031.csv").read_text(encoding="utf-8").splitlines()
    return sorted(line.split(",", 2)[2].split(",") for line in lines)


async def said(app: App, text: str, external_id: str | None = None) -> str:
    heard = await app.receive(text, external_id=external_id)
    return (await heard.run.result()).response.content


async def test_what_was_spent_is_written_down_once_and_added_up_without_a_model(
    home: Home, server: ModelServer
) -> None:
    install(NAME)
    server.always(echo)
    async with opened(home, server, CLOCK) as app:
        await asyncio.gather(
            said(app, "I paid 12.50 EUR for lunch.", "m1"),
            said(app, "I spent £1,234.50 on a boat, and paid 3,20 € for tea"),
        )
        await said(app, "I paid 12.50 EUR for lunch.", "m1")
        asked = len(server.requests)
        answer = await said(app, "/expenses")
        other = await said(app, "/expenses 1999-01")
        assert len(server.requests) == asked
        assert [run.status for run in await runs(app, NAME)] == ["done"] * 4
    assert written(home) == [
        ["12.50", "EUR", "lunch"],
        ["1234.50", "GBP", "a boat"],
        ["3.20", "EUR", "tea"],
    ]
    assert answer.splitlines()[-1] == "2031-05: 15.70 EUR, 1234.50 GBP"
    assert other == "1999-01: nothing"


async def test_hostile_and_other_peoples_words_are_no_expenses(home: Home, server: ModelServer) -> None:
    install(NAME)
    server.always(echo)
    async with opened(home, server, CLOCK) as app:
        for text in (
            "I paid 5 USD for =HYPERLINK(evil)",
            "I paid €0 for nothing, and €,,,. for less",
            "The flat costs 500,000 EUR",
            "paid " * 2_000 + "9" * 10_000,
        ):
            await said(app, text)
        stranger = Incoming(channel="telegram", sender="@sam", thread="1", content="I paid 7 EUR for tea")
        await app.pipeline.receive(stranger)
        assert {run.status for run in await runs(app, NAME)} == {"done"}
        assert all("7.00" not in message for message in await messages(app))
    assert written(home) == [["5.00", "USD", "'=HYPERLINK(evil)"]]
