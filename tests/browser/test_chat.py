"""The chat as a person uses it, on a desktop and on a phone."""

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from apps import send
from browser.conftest import PATIENCE_MS, Served
from nexus.testing import ModelRequest, ToolCall, Turn, failures

MARKDOWN = """## Plan

Take the **early** train, see [the table](https://example.com/x) and `run --now`.

1. Pack
2. Leave

| From | To |
| --- | --- |
| Basel | Bern |

```python
print("<b>not bold</b>")
```

<script>document.title = "owned"</script> ![pixel](https://example.com/p.png) [bad](javascript:alert(1))
"""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAE0lEQVR4nGM4YWNDEjGMahnRWgBkVaLBmFcPfgAAAABJRU5ErkJggg=="
)
_SHOTS = os.environ.get("NEXUS_SHOTS")


@pytest.fixture(scope="module", params=[(1280, 860), (390, 844)], ids=["desktop", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, served: Served) -> Iterator[Page]:
    width, height = request.param
    context = browser.new_context(
        viewport={"width": width, "height": height}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(_login(served))
    page.wait_for_url("**/")
    page.goto(f"{served.url}/chat")
    yield page
    context.close()
    assert complaints == []


def _login(served: Served) -> str:
    return str(_api(served, "POST", "/api/login-links")["url"])


def _api(served: Served, method: str, path: str) -> dict[str, Any]:
    token = {"authorization": f"Bearer {served.home.token()}"}
    return cast(
        "dict[str, Any]", httpx.request(method, f"{served.url}{path}", headers=token, timeout=60).json()
    )


def _open(served: Served, page: Page, label: str) -> str:
    """A session of this test's own; on each screen its own."""
    label = f"{label}-{_width(page)}"
    page.goto(f"{served.url}/chat/{label}")
    return label


def _width(page: Page) -> int:
    size = page.viewport_size
    assert size is not None
    return size["width"]


def _say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".mine .said").last).to_have_text(text)


def _shot(page: Page, name: str) -> None:
    """A picture for whoever looks; and nothing is wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth") <= _width(page)
    if _SHOTS:
        page.screenshot(path=Path(_SHOTS) / f"{name}-{_width(page)}.png", caret="initial")


def _outline(page: Page) -> list[str]:
    """The parts of the last answer in their order."""
    found = page.locator(".answer").last.evaluate(
        "e => [...e.querySelectorAll('.prose, .call, .worker')].map(n => n.className.split(' ')[0] + ' ' + "
        "(n.matches('.call') ? n.querySelector('code').textContent : "
        "n.matches('.worker') ? '' : n.textContent.trim()))"
    )
    return cast("list[str]", found)


def test_markdown_is_rendered_as_it_is_written_and_nothing_moves_at_the_end(
    served: Served, page: Page
) -> None:
    gate = f"table {_width(page)}"
    served.model.script(Turn(MARKDOWN, faults=[failures.Hold(gate=gate, after_deltas=8)]))
    _open(served, page, "markdown")
    _say(page, "Plan my trip")
    live = page.locator(".pending .live .prose")
    expect(live.locator("h2")).to_have_text("Plan")
    expect(live.locator("strong")).to_have_text("early")
    expect(live.locator("ol li")).to_have_count(2)
    _shot(page, "streaming")
    page.evaluate(
        "new MutationObserver(() => { const l = document.querySelector('.live .prose'); "
        "if (l) window.last = [l.innerHTML, l.offsetHeight]; })"
        ".observe(document.querySelector('#messages'), {subtree: true, childList: true, characterData: true})"
    )
    served.model.gate(gate).open()
    answer = page.locator(".answer:not(.pending)").last
    expect(answer.locator("td")).to_have_text(["Basel", "Bern"])
    html, height = page.evaluate("window.last")
    prose = answer.locator(".prose")
    assert prose.evaluate("e => e.innerHTML") == html
    assert prose.evaluate("e => e.offsetHeight") == height
    expect(prose.locator("script, img")).to_have_count(0)
    expect(prose.locator("a[href^=javascript]")).to_have_count(0)
    assert page.title() != "owned"
    _shot(page, "markdown")
    page.reload()
    assert page.locator(".answer .prose").last.evaluate("e => e.innerHTML") == html


def test_tool_calls_stand_where_they_happened_live_and_after_a_reload(served: Served, page: Page) -> None:
    label = f"tools {_width(page)}"
    served.model.script(
        Turn("Let me look.", [ToolCall("bash", {"command": "echo found it"})]),
        Turn("It is **there**.", faults=[failures.Hold(gate=label, after_deltas=1)]),
    )
    _open(served, page, "tools")
    _say(page, "Where is it?")
    expect(page.locator(".pending .prose").last).to_contain_text("It is")
    call = page.locator(".pending .call")
    expect(call).to_contain_text("echo found it")
    expect(call.locator(".status")).to_have_text("done")
    call.locator("summary").click()
    _shot(page, "tools-live")
    served.model.gate(label).open()
    expect(page.locator(".pending")).to_have_count(0)
    expect(page.locator(".answer .call[open]")).to_contain_text("found it")
    outline = _outline(page)
    assert outline == ["prose Let me look.", "call bash", "prose It is there."]
    _shot(page, "tools")
    page.reload()
    assert _outline(page) == outline


def test_a_worker_is_shown_at_work_where_it_was_dispatched(served: Served, page: Page) -> None:
    task, gate = f"Count the sheep {_width(page)}", f"sheep {_width(page)}"

    def is_worker(request: ModelRequest) -> bool:
        return request.last_user.endswith(task)

    served.model.when(is_worker).always(Turn("There are 12.", faults=[failures.Hold(gate=gate)]))
    served.model.script(
        Turn("I'll ask someone.", [send("dispatch", text=task)]), Turn("", [send("wait")]), Turn("12 sheep.")
    )
    _open(served, page, "worker")
    _say(page, "How many sheep?")
    worker = page.locator(".worker")
    expect(worker).to_contain_text(task)
    expect(worker.locator(".status")).to_have_text("running")
    _shot(page, "worker")
    served.model.gate(gate).open()
    expect(page.locator(".answer").last).to_contain_text("12 sheep.")
    expect(page.locator(".pending")).to_have_count(0)
    expect(worker.locator(".status")).to_have_text("done")
    outline = _outline(page)
    assert outline[:3] == ["prose I'll ask someone.", "call agent_send", "worker "]
    page.reload()
    assert _outline(page) == outline


def test_a_stopped_answer_stays_and_is_marked_in_the_page_the_transcript_and_the_api(
    served: Served, page: Page
) -> None:
    served.model.script(
        Turn("First of all, pack your bags. " * 10, faults=[failures.Hold(gate="never", after_deltas=2)])
    )
    label = _open(served, page, "stopped")
    _say(page, "What now?")
    expect(page.locator(".live .prose")).to_contain_text("First of all")
    page.keyboard.press("Escape")
    answer = page.locator(".answer").last
    expect(answer.locator(".stopped")).to_have_text("stopped")
    expect(answer).to_contain_text("First of all")
    expect(page.locator(".notice")).to_have_count(0)
    _shot(page, "stopped")
    page.reload()
    expect(answer.locator(".stopped")).to_have_text("stopped")
    expect(answer).to_contain_text("First of all")
    run = page.locator(".answer").last.get_attribute("data-run")
    said = _api(served, "GET", f"/api/sessions/{label}/transcript")["items"]
    assert [(each["role"], each["stopped"]) for each in said] == [("user", False), ("assistant", True)]
    assert said[1]["content"].startswith("First of all")
    assert _api(served, "GET", f"/api/executions/{run}")["partial"] == said[1]["content"]
    page.goto(f"{served.url}/sessions/{label}")
    expect(page.locator(".turn.assistant")).to_contain_text("stopped")
    # The model knows how far it got.
    served.model.script(Turn("Going on."))
    page.goto(f"{served.url}/chat/{label}")
    _say(page, "Go on")
    expect(page.locator(".answer").last).to_contain_text("Going on.")
    assert "First of all" in served.model.requests[-1].body.decode()


def test_an_answer_is_regenerated_with_another_model_and_the_old_one_is_forgotten(
    served: Served, page: Page
) -> None:
    served.model.script(Turn("A dull answer."), Turn("A bright answer."), Turn("Fine."))
    label = _open(served, page, "again")
    _say(page, "Say something bright")
    expect(page.locator(".answer").last).to_contain_text("A dull answer.")
    page.get_by_label("Model", exact=True).select_option("test/small")
    page.get_by_role("button", name="Regenerate").click()
    expect(page.locator(".answer").last).to_contain_text("A bright answer.")
    expect(page.locator(".mine")).to_have_count(1)
    expect(page.locator("#messages")).not_to_contain_text("A dull answer.")
    assert served.model.requests[-1].model == "small"
    page.reload()
    expect(page.locator("#messages")).not_to_contain_text("A dull answer.")
    expect(page.get_by_label("Model", exact=True)).to_have_value("test/small")
    _say(page, "And now?")
    expect(page.locator(".answer").last).to_contain_text("Fine.")
    asked = served.model.requests[-1].body.decode()
    assert "A bright answer." in asked
    assert "A dull answer." not in asked
    page.goto(f"{served.url}/sessions/{label}")
    expect(page.locator(".turn", has_text="A dull answer.")).to_contain_text("replaced")


def test_a_message_is_edited_by_arrow_up_and_what_came_after_goes(served: Served, page: Page) -> None:
    served.model.script(Turn("Rome is nice."), Turn("Oslo is cool."))
    _open(served, page, "edit")
    _say(page, "Tell me of Rome")
    expect(page.locator(".answer").last).to_contain_text("Rome is nice.")
    box = page.get_by_label("Message", exact=True)
    box.press("ArrowUp")
    expect(box).to_have_value("Tell me of Rome")
    _shot(page, "editing")
    box.press("Escape")
    expect(box).to_have_value("")
    box.press("ArrowUp")
    _say(page, "Tell me of Oslo")
    expect(page.locator(".answer").last).to_contain_text("Oslo is cool.")
    expect(page.locator("#messages")).not_to_contain_text("Rome")
    assert "Rome" not in served.model.requests[-1].body.decode()
    page.reload()
    expect(page.locator(".mine .said")).to_have_text(["Tell me of Oslo"])


def test_an_answer_is_copied_as_it_was_written(served: Served, page: Page) -> None:
    served.model.script(Turn("Take the **early** train."))
    _open(served, page, "copy")
    _say(page, "Which train?")
    page.evaluate("navigator.clipboard.writeText('')")
    page.locator(".answer").last.get_by_role("button", name="Copy answer").click()
    copied = page.evaluate(
        "async () => { let text = ''; for (let n = 0; n < 600 && !text; n++) { "
        "await new Promise(next => setTimeout(next, 50)); text = await navigator.clipboard.readText(); } "
        "return text; }"
    )
    assert copied == "Take the **early** train."


def test_pictures_and_files_are_attached_previewed_and_shown_again(
    served: Served, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("The door code is blue.")
    (tmp_path / "dot.png").write_bytes(PIXEL)
    served.model.script(Turn("A dot and a note."))
    _open(served, page, "files")
    page.locator("#files").set_input_files([tmp_path / "notes.txt", tmp_path / "dot.png"])
    chosen = page.locator("[data-chosen] li")
    expect(chosen).to_have_count(2)
    expect(chosen.locator("img")).to_have_attribute("src", re.compile("^data:image/png"))
    # Another one is pasted, and taken off again.
    page.locator("#text").evaluate(
        "e => { const d = new DataTransfer(); d.items.add(new File(['x'], 'pasted.txt')); "
        "e.dispatchEvent(new ClipboardEvent('paste', {clipboardData: d, bubbles: true, cancelable: true})); }"
    )
    expect(chosen).to_have_count(3)
    _shot(page, "attached")
    page.get_by_role("button", name="Remove pasted.txt").click()
    _say(page, "What is this?")
    expect(page.locator(".answer").last).to_contain_text("A dot and a note.")
    expect(chosen).to_have_count(0)
    assert "The door code is blue." in served.model.requests[-1].body.decode()
    for _ in range(2):
        picture = page.locator(".mine .attached img")
        expect(picture).to_have_attribute("alt", "dot.png")
        assert picture.evaluate("async e => { await e.decode(); return e.naturalWidth; }") == 10
        expect(page.locator(".mine .attached")).to_contain_text("notes.txt")
        page.reload()
    _shot(page, "files")


def test_an_edited_message_keeps_its_files_unless_they_are_taken_off(
    served: Served, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("The door code is green.")
    # Not what the other screen's conversation said: that one may be remembered here.
    gate = f"The gate is open at {_width(page)}."
    (tmp_path / "more.txt").write_text(gate)
    (tmp_path / "dot.png").write_bytes(PIXEL)
    served.model.script(Turn("Seen."), Turn("Seen again."))
    _open(served, page, "edited-files")
    page.locator("#files").set_input_files([tmp_path / name for name in ("notes.txt", "more.txt", "dot.png")])
    _say(page, "What is this?")
    expect(page.locator(".answer").last).to_contain_text("Seen.")
    page.get_by_label("Message", exact=True).press("ArrowUp")
    chosen = page.locator("[data-chosen] li")
    expect(chosen).to_have_count(3)
    expect(chosen.locator("img")).to_have_count(1)
    page.get_by_role("button", name="Remove more.txt").click()
    _shot(page, "editing-files")
    _say(page, "And what is that?")
    expect(page.locator(".answer").last).to_contain_text("Seen again.")
    expect(chosen).to_have_count(0)
    asked = served.model.requests[-1].body.decode()
    assert "The door code is green." in asked
    assert gate not in asked
    assert "And what is that?" in asked
    expect(page.locator(".mine")).to_have_count(1)
    expect(page.locator(".mine .attached li")).to_have_count(2)
    # Editing is given up: nothing of it is left behind.
    page.locator(".mine").hover()
    page.get_by_role("button", name="Edit").click()
    expect(chosen).to_have_count(2)
    page.get_by_role("button", name="Cancel").click()
    expect(chosen).to_have_count(0)


def test_commands_are_chosen_with_the_keyboard(served: Served, page: Page) -> None:
    _open(served, page, "commands")
    box = page.get_by_label("Message", exact=True)
    box.press("/")
    menu = page.get_by_role("listbox", name="Commands")
    expect(menu).to_be_visible()
    _shot(page, "commands")
    box.press("ArrowDown")
    expect(menu.locator("[aria-selected=true]")).to_contain_text("/stop")
    box.press("Escape")
    expect(menu).to_be_hidden()
    box.fill("/mem")
    box.press("Enter")
    expect(box).to_have_value("/memory ")
    box.fill("/memory nuts")
    box.press("Enter")
    page.wait_for_url("**/memory?q=nuts")


def test_a_page_of_the_chat_is_light(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/chat/markdown-{_width(page)}")
    page.wait_for_load_state("load")
    size = page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".reduce((sum, each) => sum + each.decodedBodySize, 0)"
    )
    assert 100_000 < size < 300_000
