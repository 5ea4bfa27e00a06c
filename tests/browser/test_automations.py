"""A person writes, tests, changes and restores an automation, at a desk and on a phone."""

import re

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Served, with_link


@pytest.fixture(scope="module")
def served(shared: Served) -> Served:
    return with_link(shared)


@pytest.mark.parametrize("width", [1280, 390])
def test_an_automation_is_written_tested_changed_and_restored(served: Served, page: Page, width: int) -> None:
    name = f"echo-{width}"
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{served.url}/automations")
    page.get_by_role("link", name="New script").click()
    page.wait_for_url("**/automations/new/script")
    page.get_by_label("Name").fill(name)
    script = page.get_by_role("textbox", name="Script", exact=True)
    script.fill("")
    script.focus()
    # Typed as a person does: the editor indents.
    page.keyboard.type("async def run(ctx):")
    page.keyboard.press("Enter")
    page.keyboard.type('return {"log": {"said": ctx.request.event.content}}')
    expect(script).to_have_value(
        'async def run(ctx):\n    return {"log": {"said": ctx.request.event.content}}'
    )
    expect(page.locator(".editor .token.keyword").first).to_have_text("async")
    page.get_by_label("Message").fill("Buy milk")
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#trial")).to_contain_text("worked")
    expect(page.locator("#trial")).to_contain_text("Buy milk")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("link", name="Edit", exact=True).click()
    page.wait_for_url("**/edit")
    script.focus()
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")
    page.keyboard.type("# done")
    expect(script).to_have_value(re.compile("# done"))
    page.keyboard.press("Control+s")
    expect(page.locator(".versions b").first).to_have_text("2")
    page.wait_for_load_state("load")
    page.get_by_role("link", name="Show changes").first.click()
    expect(page.locator(".diff .add").last).to_contain_text("# done")
    page.get_by_role("button", name="Restore").click()
    expect(page.locator(".versions b").first).to_have_text("3")
    page.goto(f"{served.url}/automations")
    row = page.locator(".automations tr", has_text=name)
    expect(row).to_contain_text("Active")
    row.get_by_role("button", name="Disable").click()
    expect(page.locator(".head")).to_contain_text("disabled")


def test_the_editor_is_left_with_the_keyboard(served: Served, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto(f"{served.url}/automations/greeter/edit")
    script = page.get_by_role("textbox", name="Script", exact=True)
    before = script.input_value()
    script.focus()
    page.keyboard.press("Tab")
    expect(script).to_be_focused()
    expect(script).to_have_value(re.compile("    "))
    page.keyboard.press("Shift+Tab")
    expect(script).to_have_value(before)
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(script).not_to_be_focused()
