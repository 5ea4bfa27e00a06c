"""A conversation whose page is asked for while its answer comes."""

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

import httpx
import pytest

from apps import app_on
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.server import build
from nexus.gateway.views import answers
from nexus.gateway.views.sessions import Message
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.testing import Hold, ModelServer, Turn
from unit.gateway.dashboard.conftest import URL


async def test_a_question_is_shown_though_its_turn_is_recorded_while_the_page_is_made(
    home: Home, keys: Keys, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script(Turn("Yes.", faults=[Hold(gate="answer")]))
    lines = answers.load_lines
    async with app_on(home, server) as app, AsyncExitStack() as stack:
        transport = httpx.ASGITransport(build(Served(app, keys, stack)))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))
        run = await app.send("Is the kettle on?")
        await server.until(lambda: server.gate("answer").waiting)

        async def read(
            ledgers: Ledgers, said: Sequence[Message], running: Iterable[str]
        ) -> list[answers.Line]:
            found = await lines(ledgers, said, running)
            server.gate("answer").open()
            await run.result()
            return found

        monkeypatch.setattr(answers, "load_lines", read)
        page = (await client.get("/chat/main")).text
        assert page.count("Is the kettle on?") == 1
        assert "Yes." in page
        monkeypatch.setattr(answers, "load_lines", lines)
        assert (await client.get("/chat/main")).text.count("Is the kettle on?") == 1


async def test_a_command_of_the_terminal_is_no_message_in_the_browser(client: httpx.AsyncClient) -> None:
    for text in ("/retry", "/correct 2 It is on Sunday"):
        refused = await client.post("/chat/main", data={"text": text})
        assert refused.status_code == 400
        assert f"{text.split()[0]} works only in" in refused.text
