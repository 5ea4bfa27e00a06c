"""Registers automations in a home that is open, and waits for them."""

import asyncio
from pathlib import Path
from typing import Any

from nexus.app import App
from nexus.automations import registration
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.ledgers.runtime.invocations import Invocation
from nexus.pipeline import Incoming

OWNER = "owner"


async def register(app: App, name: str, source: str, folder: Path, **settings: Any) -> Automation:
    """Register a script. `workspace`, `role` and `peers` are as on the command line."""
    file = folder / f"{name}.py"
    file.write_text(source)
    role = settings.pop("role", None)
    if settings.pop("workspace", False) or role:
        settings["workspace_dir"] = registration.workspace_dir(app.home, name)
    if role:
        place = app.home.meeseeks / name
        place.mkdir(exist_ok=True)
        (place / "ROLE.md").write_text(role)
    peers = settings.pop("peers", ())
    settings["peer_workspaces"] = tuple(registration.workspace_dir(app.home, each) for each in peers)
    found = await asyncio.to_thread(registration.bring_in, app.home, name, file)
    new = NewAutomation(name=name, script_path=str(found.path), script_hash=found.hash, **settings)
    write = registration.writer(app.ledgers)
    return (await asyncio.to_thread(registration.register, app.home, write, new)).automation


async def runs(app: App, name: str) -> list[Invocation]:
    """The invocations of an automation, the first one first."""
    await app.automations.runner.wait_until_settled()
    return (await app.ledgers.runtime.read(invocations.of_automation, name=name))[::-1]


async def ended(app: App, name: str, count: int = 1) -> list[Invocation]:
    """The invocations of an automation once so many of them have ended."""
    async with asyncio.timeout(60):
        while True:
            found = [each for each in await runs(app, name) if each.status in invocations.FINAL]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.02)


async def let_in(app: App, sender: str, **granted: Any) -> None:
    """Grant somebody something who has said something on the channel `test` before."""
    found = await app.ledgers.identity.read(senders.find, channel="test", identifier=sender)
    assert found is not None
    await app.ledgers.identity.write(
        access.grant, entity_id=found.entity_id, granted=Granted(**granted), by=OWNER
    )


def said_by(sender: str, text: str, *, session: str = "") -> Incoming:
    """A message on a channel, from somebody who is not at the home's own terminal."""
    return Incoming(channel="test", content=text, sender=sender, thread="room", session_label=session)
