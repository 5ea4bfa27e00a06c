"""A conversation goes on, whatever goes wrong beside it."""

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor

import pytest

from apps import app_on
from nexus.cli import conversation as module
from nexus.cli.conversation import Conversation
from nexus.cli.screen import Screen
from nexus.cli.talking_here import Here
from nexus.cli.talking_there import There
from nexus.client import Client
from nexus.config import LedgersConfig
from nexus.errors import LedgerClosedError
from nexus.home import Home
from nexus.ledgers.database import Database
from nexus.testing import ModelServer


async def test_an_error_while_looking_for_news_does_not_end_the_looking(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    shown = io.StringIO()
    async with ModelServer() as server, app_on(home, server) as app:
        server.script("Hello.", "One more thing.")
        conversation = Conversation(Here(app), Screen(shown), "main", "", costs=False)
        await conversation.say("Hi")
        watching = asyncio.create_task(conversation.watch())
        sound, app.ledgers.runtime = app.ledgers.runtime, await _closed(home)
        with pytest.raises(LedgerClosedError):
            await app.runs_after("main")
        await asyncio.sleep(0.2)
        app.ledgers.runtime = sound
        await (await app.say("Anything else?", session_label="main")).result()
        async with asyncio.timeout(30):
            while "One more thing." not in shown.getvalue():
                assert not watching.done(), "the looking has ended"
                await asyncio.sleep(0.01)
        watching.cancel()


async def test_a_gateway_that_is_gone_for_a_new_session_does_not_end_the_conversation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with Client("http://127.0.0.1:9", "t" * 43) as client:
        conversation = Conversation(There(client), Screen(io.StringIO()), "main", "", costs=False)
        await module._talk(conversation, _Typed(["/new", "/help"]), "Still here")  # pyright: ignore[reportPrivateUsage]
    told = capsys.readouterr()
    assert "Nobody answers" in told.err
    assert "Still here" in told.out


class _Typed:
    """What a person types, line by line."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    async def next(self) -> str | None:
        return self._lines.pop(0) if self._lines else None


async def _closed(home: Home) -> Database:
    with ThreadPoolExecutor(1) as executor:
        database = Database(home.ledger("runtime"), "runtime", LedgersConfig(), executor)
        await database.close()
    return database
