"""A person changes settings and tests a model, at a desk and on a phone."""

import tomllib

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Served
from nexus.testing import Turn, failures


@pytest.mark.parametrize(("width", "most"), [(1280, 5), (390, 7)])
def test_a_budget_is_changed_in_the_file(served: Served, page: Page, width: int, most: int) -> None:
    # A page that is refused is an error to the console, too: not on the one that is watched.
    page = page.context.new_page()
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{served.url}/settings")
    page.get_by_label("This home, a day, in US dollars").fill("much")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_role("alert")).to_contain_text("must be a number")
    page.get_by_label("This home, a day, in US dollars").fill(str(most))
    page.get_by_role("button", name="Save budgets").click()
    expect(page.locator(".notice.good")).to_contain_text("Restart now")
    expect(page.locator(".knob", has_text="day_usd")).to_contain_text("changed")
    assert tomllib.loads(served.home.config_file.read_text())["budgets"]["day_usd"] == most
    page.close()


def test_a_model_is_tested_live(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/settings")
    large = page.locator(".tested li", has_text="test/large")
    served.model.always(Turn("one, two, three"))
    large.get_by_role("button", name="Test").click()
    expect(large.locator(".status.good")).to_contain_text("answered in")
    page.goto(f"{served.url}/setup?provider=compatible")
    page.get_by_label("Server URL").fill(served.model.openai_url)
    page.get_by_label("Server URL").press("Tab")
    expect(page.get_by_role("radio", name="nexus-testing")).to_be_checked()
    page.get_by_role("button", name="Test the model").click()
    expect(page.locator(".trial")).to_contain_text("one, two, three")
    expect(page.get_by_role("button", name="Save and start")).to_be_visible()
    page.goto(f"{served.url}/settings")
    served.model.reset()
    served.model.always(failures.HttpError("authentication"))
    large.get_by_role("button", name="Test").click()
    expect(large.locator(".status.bad")).to_be_visible()


# The last one: it opens the home again, with another model.
def test_setup_ends_with_a_home_that_answers(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/setup")
    page.get_by_role("link", name="Another OpenAI-compatible server").click()
    page.get_by_label("Server URL").fill(served.model.openai_url)
    page.get_by_label("Server URL").press("Tab")
    expect(page.get_by_role("radio", name="nexus-testing")).to_be_checked()
    served.model.reset()
    served.model.always(Turn("Hello from the new model."))
    page.get_by_role("button", name="Test the model").click()
    # Two answers at a time are tried, too; what is shown is one.
    expect(page.locator("[data-trial-text]")).to_have_text("Hello from the new model.")
    page.get_by_role("button", name="Save and start").click()
    expect(page.get_by_role("heading", name="Nexus is ready")).to_be_visible()
    saved = tomllib.loads(served.home.config_file.read_text())
    assert saved["models"]["manager"].endswith("/nexus-testing")
    page.get_by_role("link", name="Say hello").click()
    page.get_by_label("Message", exact=True).fill("Hello?")
    page.get_by_label("Message", exact=True).press("Enter")
    expect(page.get_by_text("Hello from the new model.")).to_be_visible()
