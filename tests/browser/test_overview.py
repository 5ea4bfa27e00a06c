"""The home page, the search and the sessions, as a person uses them at a desk and on a phone."""

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Served, with_link
from nexus.testing import Turn

DESK = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def served(shared: Served) -> Served:
    return with_link(shared)


@pytest.fixture(params=[1280, 390])
def sized(page: Page, request: pytest.FixtureRequest) -> Page:
    """The page at a desk, and on a phone."""
    page.set_viewport_size({"width": request.param, "height": 844})
    return page


def _talk(served: Served, page: Page, label: str, text: str) -> None:
    served.model.script(Turn(f"Noted: {text}"))
    page.goto(f"{served.url}/chat/{label}")
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".answer").last).to_contain_text("Noted")
    expect(page.locator(".pending")).to_have_count(0)


def test_the_home_page_is_where_one_arrives(served: Served, sized: Page) -> None:
    page = sized
    page.goto(served.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    expect(page.locator(".inbox")).to_contain_text("may be the same")
    expect(page.locator("#learned").locator("..")).to_contain_text("Tyler's birthday is March 12")
    page.locator(".inbox a").first.click()
    expect(page.get_by_role("button", name="Merge")).to_be_visible()


def test_everything_is_found_with_the_keyboard_alone(served: Served, sized: Page) -> None:
    page = sized
    page.goto(f"{served.url}/usage")
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search everything")
    expect(box).to_be_focused()
    page.keyboard.type("Sarah")
    results = page.locator("#palette-results")
    expect(results.locator("a.chosen")).to_contain_text("Sarah Chen")
    page.keyboard.press("ArrowDown")
    expect(results.locator("a.chosen")).to_contain_text("allergic")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sarah Chen")
    page.wait_for_load_state("load")
    page.keyboard.press("Meta+k")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).not_to_be_visible()


def test_the_search_works_without_script(served: Served, page: Page) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    plain = context.new_page()
    plain.goto(served.url)
    plain.get_by_role("link", name="Search").click()
    plain.get_by_role("searchbox", name="Search everything").fill("nuts")
    plain.get_by_role("button", name="Search").click()
    plain.get_by_role("link", name="I am allergic to nuts").first.click()
    expect(plain.get_by_role("heading", level=1)).to_have_text("Message")
    context.close()


def test_a_session_is_renamed_found_archived_and_deleted(served: Served, sized: Page) -> None:
    page, label = sized, f"boats-{sized.viewport_size['width']}" if sized.viewport_size else "boats"
    _talk(served, page, label, "The blue boat needs a new sail")
    page.goto(f"{served.url}/sessions/{label}")
    page.get_by_text("Rename", exact=True).click()
    page.get_by_label("Title").fill("About the boat")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("About the boat")
    page.goto(f"{served.url}/sessions")
    page.get_by_role("searchbox", name="Search sessions").fill("new sail")
    page.keyboard.press("Enter")
    expect(page.locator("td.main a").first).to_have_text("About the boat")
    page.locator("td.main a").first.click()
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    expect(page.get_by_role("link", name="About the boat")).to_have_count(0)
    page.wait_for_load_state("load")
    page.get_by_label("Archived").check()
    page.get_by_role("link", name="About the boat").click()
    page.get_by_role("link", name="Delete…").click()
    expect(page.locator(".counts").first).to_contain_text("Messages")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    page.goto(f"{served.url}/search?q=sail")
    expect(page.locator("main .everything")).to_contain_text("Nothing found")


def test_a_list_is_limited_to_dates(served: Served, sized: Page) -> None:
    page = sized
    page.goto(f"{served.url}/memory/facts")
    expect(page.locator(".timeline li")).not_to_have_count(0)
    page.get_by_label("Recorded").select_option("Custom dates…")
    page.get_by_label("to", exact=True).fill("2020-01-01")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".empty")).to_contain_text("No facts found")
    page.wait_for_load_state("load")
    page.get_by_label("Recorded").select_option("Today")
    expect(page.locator(".timeline")).to_contain_text("Sarah is allergic to nuts")
