"""A real browser on a real home: `nexus up` in a process of its own, on a model server of the test."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from acceptance.agents import environment
from acceptance.program import start_program
from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.testing import ModelServer
from unit.gateway.scene import SCRIPT, Scene

PATIENCE_MS = 60_000
_SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A home that runs, with the model behind it."""

    url: str
    login_url: str
    model: ModelServer
    home: Home


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Further settings of the home; a module may have its own."""
    return {}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]) -> Iterator[Served]:
    """A home with a conversation, two names of one person and an automation in two versions."""
    with _serving(tmp_path_factory.mktemp("browser"), variables) as made:
        yield made


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same for several modules, which leave it as the others need it."""
    with _serving(tmp_path_factory.mktemp("shared"), {}) as made:
        yield made


def with_link(shared: Served) -> Served:
    """A served home with a login link that nobody has used."""
    token = {"authorization": f"Bearer {shared.home.token()}"}
    made = httpx.post(f"{shared.url}/api/login-links", headers=token, timeout=PATIENCE_MS / 1000)
    return replace(shared, login_url=made.json()["url"])


@contextmanager
def _serving(folder: Path, variables: dict[str, str]) -> Generator[Served]:
    home = new_home(folder / "home")
    with ThreadPoolExecutor(1) as elsewhere:  # the browser may have its loop in this thread
        elsewhere.submit(asyncio.run, _fill(home, folder)).result()
    with ModelServer() as model:
        words = ("--home", str(home.root), "up", "--json", "--port", "0")
        env = environment(model, NEXUS_MODELS_REFLECTION="test/small", **variables)
        process = start_program(*words, env=env, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            yield Served(url=told["url"], login_url=told["login_url"], model=model, home=home)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            process.stdout.close()


# Not for the whole run: its event loop would be in the way of the tests that have their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    assert executable, "these tests need Chromium: apt-get install chromium"
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_SWITCHES.split())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A browser that came in by the login link. A script error or a refused script fails its test."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(served.login_url)
    page.wait_for_url("**/")
    yield page
    context.close()
    assert complaints == []


async def _fill(home: Home, folder: Path) -> None:
    async with Ledgers(home, LedgersConfig()) as opened:
        scene = Scene(ledgers=opened)
        _, allergy, _ = await scene.say("Hello", "I am allergic to nuts", "Keep that in mind, please")
        await scene.remember("entity", id="sarah", name="Sarah Chen", type="Person")
        await scene.remember("entity", id="sara", name="Sara Chen", type="Person")
        await scene.remember("fact", about="sarah", fact="Sarah is allergic to nuts", event_id=allergy)
        (birthday,) = await scene.say(
            "Tyler's birthday is on March 12, don't let me forget it.", thread="other"
        )
        await scene.remember("entity", id="tyler", name="Tyler", type="Person")
        await scene.remember("fact", about="tyler", fact="Tyler's birthday is March 12", event_id=birthday)
        await scene.automation(folder, "greeter")
        await scene.automation(folder, "greeter", SCRIPT.replace("{}", "None"))
