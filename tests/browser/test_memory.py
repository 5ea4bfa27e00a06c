"""Memory that a person corrects: on its pages, under an answer, by keyboard; wide and on a phone."""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import Served
from nexus.config import LedgersConfig
from nexus.ledgers import Ledgers, sql
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance
from nexus.testing import Turn

WRITER = Provenance(actor="memory-writer", kind="writer")
WIDE, PHONE = 1280, 390
# Of each width other facts: alike ones would be taken for replacements of each other.
_CORRECTED = {
    WIDE: ("Sarah lives in Oslo", "Sarah lives in Bergen"),
    PHONE: ("Sarah keeps her skates in the attic", "Sarah keeps her skates in the cellar"),
}
_ASKED_ABOUT = {WIDE: ("favorite dish", "lasagna", "ramen"), PHONE: ("dentist", "Dr Pelikan", "Dr Heron")}


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def width(request: pytest.FixtureRequest, page: Page) -> Iterator[int]:
    page.set_viewport_size({"width": request.param, "height": 844})
    yield request.param
    page.set_viewport_size({"width": WIDE, "height": 860})


def test_a_fact_is_added_corrected_pinned_and_shown_as_a_chain(
    served: Served, page: Page, width: int
) -> None:
    old, new = _CORRECTED[width]
    page.goto(f"{served.url}/memory/entities/sarah")
    page.get_by_text("Add a fact").click()
    page.get_by_label("Fact", exact=True).fill(old)
    page.get_by_role("button", name="Add fact").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(old)
    expect(page.locator("dl.facts")).to_contain_text("Sarah Chen")
    expect(page.locator("dl.facts")).to_contain_text("written by you")
    page.get_by_text("Correct…").click()
    page.get_by_label("This is wrong.").fill(new)
    page.get_by_role("button", name="Save correction").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(new)
    chain = page.locator(".chain > li")
    expect(chain).to_have_count(2)
    expect(chain.first).to_contain_text("current")
    expect(chain.last).to_contain_text(old)
    expect(chain.last).to_contain_text("changed, as stated")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator(".flags")).to_contain_text("pinned")
    page.goto(f"{served.url}/memory/facts?pinned=1")
    row = page.locator(".fact", has_text=new)
    expect(row).to_be_visible()
    row.hover()
    row.get_by_role("button", name="Unpin").click()
    expect(row.get_by_role("button", name="Pin", exact=True)).to_be_attached()


def test_what_was_learned_is_reviewed_with_the_keyboard(served: Served, page: Page) -> None:
    _learn(served, "Tyler plays chess", "Tyler owns a boat", "Tyler is tall")
    page.goto(f"{served.url}/memory/review")
    tall, boat, chess = (_row(page, text) for text in ("is tall", "owns a boat", "plays chess"))
    expect(tall).to_have_attribute("aria-current", "true")
    page.keyboard.press("j")
    expect(boat).to_have_attribute("aria-current", "true")
    page.keyboard.press("k")
    page.keyboard.press("a")
    expect(tall).to_contain_text("Accepted")
    expect(boat).to_have_attribute("aria-current", "true")
    page.keyboard.press("x")
    expect(boat).to_contain_text("Rejected")
    expect(chess).to_have_attribute("aria-current", "true")
    page.keyboard.press("c")
    expect(chess.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("Tyler plays go")
    chess.get_by_role("button", name="Save correction").click()
    expect(_row(page, "Tyler plays go")).to_contain_text("Written by you")
    page.goto(f"{served.url}/memory?q=What+boat+does+Tyler+own")
    expect(page.locator("#found")).not_to_contain_text("Tyler owns a boat")
    page.goto(f"{served.url}/memory/review?status=rejected")
    boat = _row(page, "owns a boat")
    boat.focus()
    page.keyboard.press("u")
    expect(boat.get_by_role("button", name="Accept")).to_be_visible()
    page.goto(f"{served.url}/memory/review")
    expect(_row(page, "owns a boat")).to_be_visible()


def test_a_review_on_a_phone_has_buttons_and_an_undo(served: Served, page: Page) -> None:
    _learn(served, "Tyler sings in a choir")
    page.set_viewport_size({"width": PHONE, "height": 844})
    page.goto(f"{served.url}/memory/review")
    choir = _row(page, "sings in a choir")
    choir.get_by_role("button", name="Reject").click()
    expect(choir).to_contain_text("Rejected")
    choir.get_by_role("button", name="Undo").click()
    choir.get_by_role("button", name="Accept").click()
    expect(choir).to_contain_text("Accepted")
    page.set_viewport_size({"width": WIDE, "height": 860})


def test_a_memory_under_an_answer_says_why_and_is_corrected_there(
    served: Served, page: Page, width: int
) -> None:
    thing, value, other = _ASKED_ABOUT[width]
    _tell(served, f"Tyler's {thing} is {value}")
    served.model.script(Turn(f"{value}."))
    page.goto(f"{served.url}/chat/asked-{width}")
    page.get_by_label("Message", exact=True).fill(f"What is Tyler's {thing}?")
    page.keyboard.press("Enter")
    answer = page.locator(".answer", has_text=f"{value}.")
    answer.locator(".memories > summary").click()
    memory = answer.locator(".offered > li", has_text=value)
    expect(memory.locator(".why")).to_have_text(re.compile(r"It is among the best matches.*\(.*\)\."))
    memory.get_by_role("button", name="Pin", exact=True).click()
    expect(memory.get_by_role("button", name="Unpin")).to_be_visible()
    memory.get_by_text("Correct", exact=True).click()
    memory.get_by_role("textbox").fill(f"Tyler's {thing} is {other}")
    memory.get_by_role("button", name="Save correction").click()
    corrected = answer.locator(".offered > li", has_text=f"is {other}")
    expect(corrected).to_contain_text("corrected by you")
    corrected.get_by_role("link", name="Forget").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Forget this fact?")
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator(".chain > li")).to_have_count(2)


def test_a_fact_and_a_person_are_forgotten_after_a_preview(served: Served, page: Page, width: int) -> None:
    name = f"Quentin{width}"
    _learn(served, f"{name} has a parrot", f"{name} has a secret garden", about=name)
    page.goto(f"{served.url}/memory/facts?q={name}+parrot")
    row = page.locator(".fact", has_text="parrot")
    row.hover()
    row.get_by_role("link", name="Forget").click()
    expect(page.locator(".counts").first).to_contain_text("Facts")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page).to_have_url(re.compile("/memory/forget"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Forget this fact?")
    page.get_by_label("I understand").check()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Forgotten")
    page.goto(f"{served.url}/memory/entities?q={name}")
    page.locator("td.main a", has_text=name).click()
    expect(page.locator(".timeline")).not_to_contain_text("parrot")
    page.get_by_role("link", name="Forget…").click()
    expect(page.locator(".counts").first).to_contain_text("People and things")
    page.get_by_label("I understand").check()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Forgotten")
    page.goto(f"{served.url}/memory/entities?q={name}")
    expect(page.locator(".empty")).to_be_visible()


def test_a_conflict_is_settled_by_naming_the_one_that_holds(served: Served, page: Page) -> None:
    gym, pool = "Tyler's gym bag is in locker 12", "At the pool Tyler puts his towel into cabinet 19"
    _learn(served, gym, pool, type="LOCKER")
    page.goto(f"{served.url}/memory/facts?q=cabinet+19")
    page.get_by_role("link", name=pool).click()
    rival = page.locator(".pair", has_text=gym)
    rival.get_by_role("button", name="Replaced by this").click()
    expect(page.locator("#rivals")).to_have_count(0)
    expect(page.locator(".chain > li")).to_have_count(2)


def test_a_pair_kept_apart_with_the_keyboard_is_not_suggested_again(served: Served, page: Page) -> None:
    _entity(served, "Jonathan Falk")
    _entity(served, "Jonathon Falk")
    page.goto(f"{served.url}/memory/merges")
    pair = page.locator(".queue > li", has_text="Falk")
    pair.focus()
    page.keyboard.press("x")
    expect(page.locator(".queue > li.done")).to_contain_text("Kept apart")
    page.goto(f"{served.url}/memory/merges")
    expect(page.locator("main")).not_to_contain_text("Falk")
    page.goto(f"{served.url}/memory/merges?status=rejected")
    expect(page.locator(".queue")).to_contain_text("Falk")


def _run(work: Coroutine[Any, Any, None]) -> None:
    """The browser has this thread's event loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()


def _row(page: Page, text: str) -> Locator:
    return page.locator(".queue > li", has_text=text)


def _learn(served: Served, *facts: str, about: str = "Tyler", **more: str) -> None:
    """What the memory writer would have written."""

    async def work() -> None:
        async with Ledgers(served.home, LedgersConfig()) as opened:
            memory = Memory(opened)
            if about != "Tyler":
                await memory.run("entity", {"name": about, "type": "Person"}, WRITER)
            for fact in facts:
                await memory.run("fact", {"about": about, "fact": fact, **more}, WRITER)

    _run(work())


def _tell(served: Served, fact: str) -> None:
    """Let the home itself write a fact about Tyler, and embed it."""
    token = {"Authorization": f"Bearer {(served.home.root / 'token').read_text()}"}
    told = httpx.post(
        f"{served.url}/api/memory/facts", json={"fact": fact, "about": "Tyler"}, headers=token, timeout=60
    )
    id_ = told.raise_for_status().json()["id"]
    query = "SELECT count(*) FROM embeddings WHERE target_id = ?"

    async def wait() -> None:
        async with Ledgers(served.home, LedgersConfig()) as opened:
            while not await opened.embeddings.read(sql.value, query, (id_,)):
                await asyncio.sleep(0.05)

    _run(wait())


def _entity(served: Served, name: str) -> None:
    async def work() -> None:
        async with Ledgers(served.home, LedgersConfig()) as opened:
            await Memory(opened).run("entity", {"name": name, "type": "Person"}, WRITER)

    _run(work())
