"""What a person does in the dashboard."""

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from apps import dispatching
from browser.conftest import Served
from browser.pictures import script
from nexus.testing import ModelRequest, Turn, failures

TASK = "Plan Tyler's birthday dinner"
ANSWER = "You are allergic to **nuts**. " + "Nothing else is known. " * 20


def _is_worker(request: ModelRequest) -> bool:
    return request.last_user.endswith(TASK)


def test_without_the_link_nobody_comes_in(served: Served, page: Page) -> None:
    stranger = page.context.browser
    assert stranger is not None
    context = stranger.new_context()
    answer = context.new_page().goto(f"{served.url}/requests")
    assert answer is not None
    assert answer.status == 401
    again = context.new_page().goto(served.login_url)
    assert again is not None
    assert again.status == 401, "a link works once"
    context.close()


def test_a_message_is_answered_as_it_is_written_and_leads_to_its_trace(served: Served, page: Page) -> None:
    served.model.script(Turn(ANSWER, faults=[failures.Hold(gate="middle", after_deltas=3)]))
    page.goto(f"{served.url}/chat")
    page.get_by_label("Message").fill("What am I allergic to?")
    page.keyboard.press("Enter")
    expect(page.locator(".mine").last).to_have_text("What am I allergic to?")
    live = page.locator(".pending .live")
    expect(live).to_contain_text("You are allergic")
    expect(live).not_to_contain_text("Nothing else is known. " * 10)
    # Only once it is complete is it shown as it was meant.
    served.model.gate("middle").open()
    expect(page.locator(".answer strong")).to_have_text("nuts")
    expect(page.locator(".pending")).to_have_count(0)
    page.locator(".answer").last.get_by_role("link", name="trace").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What am I allergic to?")
    waterfall = page.locator(".waterfall")
    expect(waterfall).to_contain_text("receiveEvent")
    expect(waterfall).to_contain_text("test/large")
    expect(waterfall.locator("tr.k-model rect")).to_have_count(1)


def test_a_conversation_is_there_again_after_it_was_left(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/chat/main")
    expect(page.locator(".mine")).to_have_text(["What am I allergic to?"])
    expect(page.locator(".answer strong")).to_have_text("nuts")


def test_an_injected_memory_leads_to_the_message_that_it_came_from(served: Served, page: Page) -> None:
    served.model.when(_is_worker).always(Turn("On March 12 we eat at Osteria Mozza."))
    served.model.script(*dispatching(TASK, then="All planned."))
    page.goto(f"{served.url}/chat/dinner")
    page.get_by_label("Message").fill("A dinner, please.")
    page.get_by_role("button", name="Send").click()
    answer = page.locator(".answer", has_text="All planned.")
    answer.locator(".memories > summary").click()
    memory = answer.locator(".offered li", has_text="Tyler's birthday is March 12")
    expect(memory).to_contain_text("used in the answer")
    memory.get_by_role("link", name="source").click()
    expect(page.locator("[aria-current=true]")).to_contain_text("don't let me forget it")
    page.go_back()
    page.locator(".answer").last.get_by_role("link", name="trace").click()
    expect(page.locator(".offered")).to_contain_text("Tyler's birthday is March 12")


def test_a_recalled_fact_leads_to_the_message_that_it_came_from(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/memory")
    page.get_by_label("Question").fill("Who is allergic to nuts?")
    page.get_by_role("button", name="Recall").click()
    result = page.locator(".results li", has_text="Sarah is allergic to nuts")
    expect(result.locator(".why")).to_contain_text("same words")
    result.get_by_role("link", name="source").click()
    expect(page.locator("[aria-current=true]")).to_contain_text("I am allergic to nuts")
    expect(page.locator(".thread")).to_contain_text("Keep that in mind, please")


def test_two_names_of_one_person_are_merged_and_taken_apart_again(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/memory/merges")
    page.get_by_role("button", name="Merge", exact=False).click()
    expect(page.locator(".queue .done")).to_contain_text("Merged into one entity")
    page.get_by_role("link", name="one entity").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Sarah? Chen"))
    page.get_by_role("button", name="Unmerge").click()
    expect(page.get_by_role("button", name="Unmerge")).to_have_count(0)
    page.goto(f"{served.url}/memory/entities")
    expect(page.locator("td.main a", has_text="Chen")).to_have_count(2)


def test_an_automation_is_disabled_and_an_older_version_comes_back(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/automations")
    page.locator("tr", has_text="greeter").get_by_role("button", name="Disable").click()
    expect(page.locator(".head")).to_contain_text("disabled: in the dashboard")
    page.wait_for_load_state("load")
    page.get_by_role("link", name="Show changes").first.click()
    expect(page.locator(".diff .add")).to_contain_text(["return None"])
    page.get_by_role("button", name="Restore").click()
    expect(page.locator(".versions li").first).to_contain_text("3")
    expect(page.locator(".head")).to_contain_text("active")
    expect(page.locator("pre.code").first).to_contain_text("return {}")


def test_the_theme_is_kept(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/settings")
    page.get_by_role("button", name="Light or dark").click()
    chosen = page.locator("html").get_attribute("data-theme")
    assert chosen in {"light", "dark"}
    page.goto(f"{served.url}/requests")
    assert page.locator("html").get_attribute("data-theme") == chosen


def test_no_page_is_wider_than_a_small_telephone(served: Served, page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 760})
    for path in ("/chat", "/requests", "/memory?q=nuts", "/memory/entities/sarah", "/automations", "/usage"):
        page.goto(f"{served.url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, path


def test_every_page_is_in_sight_in_the_bar_of_a_telephone(served: Served, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{served.url}/requests")
    bar = page.get_by_role("navigation", name="Pages")
    assert bar.evaluate("bar => bar.scrollWidth <= bar.clientWidth")


def test_a_person_logs_out(served: Served, page: Page) -> None:
    browser = page.context.browser
    assert browser is not None
    token = {"authorization": f"Bearer {served.home.token()}"}
    link = httpx.post(f"{served.url}/api/login-links", headers=token, timeout=60).json()["url"]
    context = browser.new_context()
    mine = context.new_page()
    mine.goto(link)
    mine.wait_for_url("**/")
    mine.get_by_role("button", name="Log out").click()
    expect(mine.get_by_role("heading")).to_have_text("Logged out")
    assert context.cookies() == []
    answer = mine.goto(f"{served.url}/chat")
    assert answer is not None
    assert answer.status == 401
    context.close()
    page.goto(f"{served.url}/settings")
    expect(page.get_by_role("button", name="Log out everywhere")).to_be_visible()


def test_pictures_are_taken_in_light_and_dark_wide_and_narrow(
    served: Served, page: Page, tmp_path: Path
) -> None:
    page.context.clear_cookies(name="theme")
    shots = script()
    wanted = [shot for shot in shots.DEMO if shot.name in {"entities", "recall-nothing"}]
    unknown = shots.Shot(name="none", route="/requests", follow="a.nowhere")
    assert shots.take(page, served.url, [*wanted, unknown], tmp_path) == ["none"]
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(found) == 8
    widths = {name: int.from_bytes(png[16:20], "big") for name, png in found.items()}
    assert (widths["entities-dark.png"], widths["entities-narrow.png"]) == (1280, 390)
    assert found["entities-light.png"] != found["entities-dark.png"]
