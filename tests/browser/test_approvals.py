"""A tool call that waits is decided in the chat with its four buttons, on a desktop and a phone."""

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Served
from nexus.testing import ToolCall, Turn

WIDE, PHONE = 1280, 390


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Every command asks first."""
    return {"NEXUS_TOOLS_ASK": "bash"}


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_a_call_is_allowed_once_and_asks_again(served: Served, page: Page, width: int) -> None:
    label = f"once-{width}"
    command = f"echo {label}"
    _ask(served, page, label, width, command)
    waiting = page.get_by_role("form", name="Approval of bash")
    expect(waiting.locator("pre")).to_have_text(command)
    waiting.get_by_role("button", name="Allow once").click()
    expect(page.locator(".answer").last).to_contain_text(f"Done with {command}.")
    assert label in served.model.requests[-1].body.decode()
    expect(waiting).to_have_count(0)
    _ask(served, page, label, width, command, opened=True)
    expect(waiting).to_have_count(1)
    waiting.get_by_role("button", name="Deny").click()
    expect(page.locator(".answer", has_text=f"Done with {command}.")).to_have_count(2)
    assert "The user declined this call" in served.model.requests[-1].body.decode()


def test_a_call_allowed_for_the_session_does_not_ask_there_again(served: Served, page: Page) -> None:
    _ask(served, page, "session", WIDE, "echo first")
    page.get_by_role("button", name="Allow bash in this session").click()
    expect(page.locator(".answer").last).to_contain_text("Done with echo first.")
    _ask(served, page, "session", WIDE, "echo second", opened=True)
    expect(page.locator(".answer").last).to_contain_text("Done with echo second.")
    expect(page.locator(".approval")).to_have_count(0)
    _ask(served, page, "elsewhere", WIDE, "echo third")
    expect(page.locator(".approval")).to_have_count(1)
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".answer").last).to_contain_text("Done with echo third.")


def test_a_pattern_that_is_always_allowed_asks_in_no_session(served: Served, page: Page) -> None:
    _ask(served, page, "always", WIDE, "date -u +%Y")
    page.get_by_role("button", name="Always allow").click()
    expect(page.locator(".answer").last).to_contain_text("Done with date -u +%Y.")
    _ask(served, page, "another", WIDE, "date -u +%m")
    expect(page.locator(".answer").last).to_contain_text("Done with date -u +%m.")
    expect(page.locator(".approval")).to_have_count(0)
    _ask(served, page, "another", WIDE, "whoami", opened=True)
    expect(page.locator(".approval pre")).to_have_text("whoami")
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".answer").last).to_contain_text("Done with whoami.")


def test_a_call_that_waits_is_there_after_a_reload(served: Served, page: Page) -> None:
    _ask(served, page, "reloaded", WIDE, "echo later")
    expect(page.locator(".approval")).to_have_count(1)
    page.reload()
    page.locator(".approval").get_by_role("button", name="Allow once").click()
    expect(page.locator(".answer").last).to_contain_text("Done with echo later.")


def _ask(served: Served, page: Page, label: str, width: int, command: str, *, opened: bool = False) -> None:
    """A message whose answer needs a command."""
    served.model.script(Turn("", [ToolCall("bash", {"command": command})]), Turn(f"Done with {command}."))
    page.set_viewport_size({"width": width, "height": 844})
    if not opened:
        page.goto(f"{served.url}/chat/{label}")
    page.get_by_label("Message", exact=True).fill(f"Run {command}")
    page.keyboard.press("Enter")
