"""A person drops an export into the browser, looks at it, imports it, learns from it, and takes it back."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import PATIENCE_MS, Served
from nexus.testing import ModelRequest, Turn

_LINE = re.compile(r"^\[(\d+)\] [^\n]*?\d\d:\d\d: (Elin lives in \w+)", re.MULTILINE)
_DROP = """([zone, name, text]) => {
  const held = new DataTransfer();
  held.items.add(new File([text], name));
  for (const type of ["dragenter", "dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(type, {dataTransfer: held, bubbles: true, cancelable: true}));
  }
}"""


def _answer(request: ModelRequest) -> Turn:
    facts = [
        {"message": int(number), "about": "Elin", "fact": text}
        for number, text in _LINE.findall(request.last_user)
    ]
    return Turn(json.dumps({"people": [], "facts": facts}))


def _history() -> str:
    lines = [
        {"id": str(day), "thread": f"t{day}", "role": "user", "text": f"Elin lives in Ghent{day}.",
         "time": f"2021-03-{day + 1:02}T10:00:00Z"}
        for day in range(6)
    ]  # fmt: skip
    return "\n".join(map(json.dumps, lines))


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    return {"NEXUS_MODELS_WRITER": "test/large", "NEXUS_MEMORY_WRITER": "structured"}


def test_an_export_is_dropped_imported_learned_from_and_undone(served: Served, page: Page) -> None:
    served.model.when(lambda request: "Answer with the JSON object." in request.last_user).always(_answer)
    page.goto(f"{served.url}/chat")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Import").click()
    page.wait_for_url("**/import")
    zone = page.locator("[data-drop]")
    zone.evaluate_handle("zone => zone")
    page.evaluate(_DROP, [zone.element_handle(), "../diary.jsonl", _history()])
    page.wait_for_url("**/import/upl_*")
    expect(page.get_by_role("heading", name="diary.jsonl")).to_be_visible()
    expect(page.locator("#job")).to_contain_text("What it would bring")
    page.get_by_role("button", name="Import 6 messages").click()
    expect(page.locator("#job")).to_contain_text("6 messages in 6 new threads")

    page.get_by_role("link", name="Learn from it").click()
    page.wait_for_url("**/backfill")
    page.get_by_role("button", name="Estimate").click()
    expect(page.locator("#estimate")).to_contain_text("Take a sample first")
    page.get_by_role("button", name="Sample 20 episodes").click()
    expect(page.locator("#sample")).to_contain_text("Elin lives in Ghent5")
    page.get_by_label("Budget in US dollars").fill("much")
    page.get_by_role("button", name="Estimate").click()
    expect(page.locator("#estimate")).to_contain_text("is not a limit")
    page.get_by_label("Budget in US dollars").fill("")
    page.get_by_label("Budget in tokens").fill("1")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#backfill")).to_contain_text("its budget of 1 tokens is used up")
    page.get_by_label("tokens", exact=True).fill("1000000")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#backfill")).to_contain_text("6 of 6", timeout=PATIENCE_MS)
    expect(page.locator("#backfill .status")).to_have_text("done", timeout=PATIENCE_MS)

    page.goto(f"{served.url}/memory/facts")
    expect(page.locator("main")).to_contain_text("Elin lives in Ghent5")
    page.goto(f"{served.url}/import")
    page.locator("summary", has_text="Undo").click()
    page.get_by_role("button", name="Undo import").click()
    expect(page.locator("main")).to_contain_text("No imports yet")
    page.goto(f"{served.url}/memory/facts")
    expect(page.locator("main")).not_to_contain_text("Elin lives in")


def test_a_file_that_is_no_export_is_refused_and_discarded(
    served: Served, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    page.goto(f"{served.url}/import")
    page.get_by_label("Drop an export here").set_input_files(tmp_path / "noise.bin")
    page.wait_for_url("**/import/upl_*")
    expect(page.get_by_role("alert")).to_contain_text("unrecognized format")
    page.goto(f"{served.url}/import")
    page.get_by_role("button", name="Discard").click()
    expect(page.locator("main")).not_to_contain_text("noise.bin")
