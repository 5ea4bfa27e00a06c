"""Every page on a desktop and a phone, in light and dark: accessible, and no wider than the screen."""

from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Page

from browser.conftest import Served, with_link
from long_form import times
from nexus.testing import ToolCall, Turn

_AXE = (Path(__file__).parent / "axe" / "axe-core-4.14.0.min.js").read_text(encoding="utf-8")
_PAGES = (
    "/",
    "/search?q=nuts",
    "/help",
    "/session-deletion/accessible",
    "/requests?when=custom",
    "/chat/accessible",
    "/requests",
    "/memory?q=nuts",
    "/memory/profile",
    "/memory/entities",
    "/memory/entities/sarah",
    "/memory/facts",
    "/memory/review",
    "/memory/forget?entity=tyler",
    "/memory/episodes",
    "/memory/observations",
    "/memory/models",
    "/memory/merges",
    "/automations",
    "/automations/greeter",
    "/automations/greeter/edit",
    "/automations/new/script",
    "/reminders",
    "/channels",
    "/sessions",
    "/sessions/accessible",
    "/import",
    "/usage",
    "/settings",
    "/setup",
    "/setup?provider=anthropic",
    "/channels/new/email",
    "/notifications",
)
_SERIOUS = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations.filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => [each.id, each.nodes.slice(0, 5).map((node) => node.html.slice(0, 160))]);
}"""


@pytest.fixture(scope="module")
def served(shared: Served) -> Served:
    return with_link(shared)


@pytest.mark.parametrize(
    ("width", "theme"), [(1280, "dark"), (390, "light"), (1280, "light"), (390, "dark")][: times(2, long=4)]
)
def test_no_page_has_a_serious_violation_or_scrolls_sideways(
    served: Served, page: Page, width: int, theme: str
) -> None:
    page.goto(f"{served.url}/requests")
    if page.get_by_text("Look", exact=True).count() == 0:
        _talk(served, page)
    page.set_viewport_size({"width": width, "height": 844})
    page.context.add_cookies([{"name": "theme", "value": theme, "url": served.url}])
    wrong: dict[str, Any] = {}
    page.goto(f"{served.url}/requests")
    trace = page.locator("td.main a").first.get_attribute("href") or ""
    page.goto(f"{served.url}/memory/facts")
    fact = page.locator(".statement a").first.get_attribute("href") or ""
    for path in (*_PAGES, trace, fact, f"/memory/forget?fact={fact.rpartition('/')[2]}"):
        page.goto(f"{served.url}{path}")
        # Not by a script tag: the pages allow none but their own.
        page.evaluate(_AXE)
        if found := cast("list[Any]", page.evaluate(_SERIOUS)):
            wrong[path] = found
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            wrong[f"{path} is too wide"] = wide
    page.context.clear_cookies(name="theme")
    assert not wrong, wrong


def _talk(served: Served, page: Page) -> None:
    """A conversation with a tool call, for the pages that show one."""
    served.model.script(
        Turn("I'll look.", [ToolCall("bash", {"command": "echo hello"})]),
        Turn("## Found\n\n`hello` in [a file](https://example.com).\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
    )
    page.goto(f"{served.url}/chat/accessible")
    page.get_by_label("Message", exact=True).fill("Look")
    page.keyboard.press("Enter")
    page.locator(".answer table").wait_for()
    page.locator(".answer:not(.pending)").wait_for()
