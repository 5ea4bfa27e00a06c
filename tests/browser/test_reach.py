"""Open pages while much is asked for at once, and while the gateway is away."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from acceptance.agents import environment
from acceptance.running import Served
from browser.conftest import PATIENCE_MS
from new_homes import new_home
from nexus.home import Home
from nexus.testing import ModelServer, Turn, failures
from ports import free_port

_MANY = 9


@dataclass(kw_only=True)
class Restarted:
    """A home that can be stopped and served again at the same place."""

    home: Home
    model: ModelServer
    port: int
    served: Served = field(init=False)

    def start(self) -> Served:
        self.served = Served(self.home, environment(self.model), "--port", str(self.port))
        return self.served


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    home = new_home(tmp_path_factory.mktemp("reach") / "home")
    with ModelServer() as model:
        made = Restarted(home=home, model=model, port=free_port())
        made.start()
        try:
            yield made
        finally:
            for gate in ("many", "away"):
                model.gate(gate).open()
            assert made.served.stop() == 0


@pytest.fixture
def page(browser: Browser, restarted: Restarted) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    token = {"authorization": f"Bearer {restarted.home.token()}"}
    link = httpx.post(f"{restarted.served.url}/api/login-links", headers=token, timeout=PATIENCE_MS / 1000)
    page.goto(link.json()["url"])
    page.wait_for_url("**/")
    page.goto(f"{restarted.served.url}/chat")
    yield page
    context.close()


def _say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".mine").last).to_have_text(text)


def test_many_runs_that_wait_leave_the_browser_connections_for_other_pages(
    restarted: Restarted, page: Page
) -> None:
    restarted.model.script(Turn("First of all.", faults=[failures.Hold(gate="many", after_deltas=1)]))
    restarted.model.always(Turn("And then."))
    page.goto(f"{restarted.served.url}/chat/busy")
    for number in range(_MANY):
        _say(page, f"Question {number}")
    expect(page.locator(".pending")).to_have_count(_MANY)
    other = page.context.new_page()
    other.goto(f"{restarted.served.url}/requests")
    expect(other.locator("td.main")).to_have_count(_MANY)
    other.close()
    page.bring_to_front()
    # One that waits can be stopped, though nothing is streamed of it.
    page.locator(".pending").last.get_by_role("button", name="Stop").click()
    expect(page.locator(".pending")).to_have_count(_MANY - 1)
    restarted.model.gate("many").open()
    expect(page.locator(".pending")).to_have_count(0)
    expect(page.locator(".answer", has_text="First of all.")).to_have_count(1)


def test_a_page_tells_that_the_gateway_is_away_and_goes_on_when_it_is_back(
    restarted: Restarted, page: Page
) -> None:
    restarted.model.always(Turn("It **goes** on.", faults=[failures.Hold(gate="away", after_deltas=1)]))
    page.goto(f"{restarted.served.url}/chat")
    page.evaluate(
        """() => {
            window.told = [];
            const line = document.querySelector("[data-reach]");
            new MutationObserver(() => window.told.push(line.textContent)).observe(line, { childList: true });
        }"""
    )
    _say(page, "Does it go on?")
    expect(page.locator(".pending .live")).to_contain_text("It")
    assert restarted.served.stop() == 0
    reach = page.locator("[data-reach]")
    expect(reach).to_have_text("Connection lost. Reconnecting…")
    restarted.start()
    restarted.model.gate("away").open()
    expect(page.locator(".answer strong")).to_have_text("goes")
    expect(reach).to_be_empty()
    assert "Reconnected." in page.evaluate("window.told")
    with page.expect_response("**/chat-later/**") as polled:
        pass
    assert polled.value.status == 200
