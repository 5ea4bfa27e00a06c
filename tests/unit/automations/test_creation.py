"""An automation out of a role."""

import asyncio
from pathlib import Path

import apsw
import pytest

from apps import app_on
from contents import directly
from nexus.automations import changes
from nexus.automations.changes import AutomationRequest
from nexus.automations.hook_points import HOOK_POINTS
from nexus.automations.registration import Registered, check_source, writer
from nexus.automations.scripts import script
from nexus.config import LedgersConfig
from nexus.errors import AutomationError, UnknownHookPointError
from nexus.home import Home
from nexus.ledgers.connection import connect
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.invocations import Invocation
from nexus.testing import ModelServer, Turn

WISH = AutomationRequest(
    name="notes", role="# Notes\n\nKeep notes.", hook_point="after:runAgent", blocking=False
)


@pytest.fixture
def connection(home: Home) -> apsw.Connection:
    return connect(home.ledger("runtime"), "runtime", LedgersConfig(), writes=True)


def made(home: Home, connection: apsw.Connection, wish: AutomationRequest) -> Registered:
    return changes.create(home, directly(connection), wish)


def test_script_workspace_and_row_are_made_together(home: Home, connection: apsw.Connection) -> None:
    automation = made(home, connection, WISH).automation
    assert (automation.status, automation.version, automation.blocking) == ("active", 1, False)
    assert script.read_registered(home, automation).source == changes.agent_text(
        "notes", HOOK_POINTS[5], "file"
    )
    assert (home.meeseeks / "notes" / "ROLE.md").read_text() == "# Notes\n\nKeep notes.\n"


def test_a_name_that_is_taken_is_refused_and_nothing_is_changed(
    home: Home, connection: apsw.Connection
) -> None:
    made(home, connection, WISH)
    with pytest.raises(AutomationError, match="already"):
        made(
            home,
            connection,
            AutomationRequest(name="notes", role="Other", hook_point="finalize", blocking=True),
        )
    assert (home.meeseeks / "notes" / "ROLE.md").read_text() == "# Notes\n\nKeep notes.\n"


def test_what_could_never_run_is_refused_before_anything_is_made(
    home: Home, connection: apsw.Connection
) -> None:
    for wish, error in (
        (AutomationRequest(name="../up", role="R", hook_point="finalize", blocking=True), AutomationError),
        (AutomationRequest(name="a", role=" ", hook_point="finalize", blocking=True), AutomationError),
        (AutomationRequest(name="a", role="R", hook_point="nowhere", blocking=True), UnknownHookPointError),
    ):
        with pytest.raises(error):
            made(home, connection, wish)
    assert not (home.meeseeks / "a").exists()
    assert not list(home.scripts.glob("*"))


@pytest.mark.parametrize("point", HOOK_POINTS, ids=lambda point: point.name)
def test_the_script_of_a_role_can_be_loaded_at_every_hook_point(point: object, tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    found = next(each for each in HOOK_POINTS if each is point)
    file.write_text(changes.agent_text("notes", found, changes.possible_results(found)[0]))
    check_source(script.read(file))


async def test_the_agent_of_a_role_answers_with_its_role_about_what_was_said(home: Home) -> None:
    with ModelServer() as server:
        server.when(last_user="Keep notes.").always(Turn("Noted: tea at four."))
        server.always(Turn("Tea at four it is."))
        async with app_on(home, server) as app:
            await asyncio.to_thread(changes.create, home, writer(app.ledgers), WISH)
            await (await app.send("Tea at four?")).result()
            await app.automations.queue.wait_until_settled()

            async def done() -> Invocation | None:
                found = await app.ledgers.runtime.read(invocations.of_automation, name="notes")
                return found[0] if found and found[0].status in invocations.FINAL else None

            while (ran := await done()) is None:
                await asyncio.sleep(0.05)
    assert (ran.status, ran.result) == ("done", {"log": {"noted": "Noted: tea at four."}}), ran.error
    assert (home.meeseeks / "notes" / "NOTES.md").read_text().endswith("Noted: tea at four.\n")


async def test_the_answer_of_a_role_goes_where_the_wish_says(home: Home) -> None:
    wish = AutomationRequest(
        name="brief", role="Brief me.", hook_point="runAutomations", blocking=True, result="context"
    )
    with ModelServer() as server:
        server.when(last_user="Brief me.").always(Turn("The train is late."))
        server.always(Turn("Take the bus."))
        async with app_on(home, server) as app:
            await asyncio.to_thread(changes.create, home, writer(app.ledgers), wish)
            await (await app.send("How do I get there?")).result()
        assert '<context source="brief">\nThe train is late.' in server.requests[-1].last_user


def test_a_result_that_could_not_arrive_is_refused(home: Home, connection: apsw.Connection) -> None:
    for point, blocking, result in (("finalize", True, "context"), ("runAutomations", False, "context")):
        wish = AutomationRequest(name="brief", role="R", hook_point=point, blocking=blocking, result=result)
        with pytest.raises(AutomationError):
            made(home, connection, wish)
