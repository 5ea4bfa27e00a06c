"""Take a picture of every page of the dashboard: light, dark, and as wide as a telephone.

    python scripts/screenshots.py FOLDER [--only NAME …]

A home with the month of `nexus demo` and an empty one are made and really served, with a model server of
`nexus.testing` behind them, and looked at with the machine's Chromium.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, FilePayload, Page, ViewportSize, expect, sync_playwright

from nexus.channels.webhook import HEADER, Webhook
from nexus.testing import ModelServer, Turn, failures

_NEXUS: Final = Path(sys.executable).with_name("nexus")
_PATIENCE_MS: Final = 60_000
_SWITCHES: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WIDE: Final[ViewportSize] = {"width": 1280, "height": 860}
_NARROW: Final[ViewportSize] = {"width": 390, "height": 800}
_VARIANTS: Final[dict[str, tuple[Literal["light", "dark"], ViewportSize]]] = {
    "light": ("light", _WIDE),
    "dark": ("dark", _WIDE),
    "narrow": ("light", _NARROW),
    "narrow-dark": ("dark", _NARROW),
}
_SECRET: Final = "shown"  # noqa: S105 - of a channel that only this script writes to
_STRANGERS: Final = (("desk", "Sam Carter"), ("studio", "Ines Duarte"))
"""Each channel, and who writes there without access."""
_ANSWER: Final = (
    "The Tidal Room opens on **28 June**. " + "The floor has to dry before the piano comes. " * 12
)


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One page in one state."""

    name: str
    route: str
    """The address as the dashboard's routes have it."""
    start: str = ""
    """Where to begin; the route itself where that is an address."""
    follow: str = ""
    """A link on that page that leads to the one of the picture."""
    act: Callable[[Page], None] | None = None
    """What is done there first."""


def _unfold(page: Page) -> None:
    """Open what is folded, but for most rows of a long list."""
    page.evaluate("[...document.querySelectorAll('main details')].slice(0, 4).forEach(d => d.open = true)")


def _unfold_memories(page: Page) -> None:
    """Open the memories of the last answer that has some."""
    page.evaluate("[...document.querySelectorAll('.memories')].slice(-1).forEach(d => d.open = true)")
    page.locator(".memories").last.scroll_into_view_if_needed()


def _ask_without(page: Page) -> None:
    """Ask once more without the first memory of the last answer that has some."""
    _unfold_memories(page)
    page.locator(".memories").last.get_by_role("button", name="Answer without it").first.click()
    page.locator(".experiment .prose").last.wait_for(timeout=_PATIENCE_MS)
    expect(page.locator(".experiment.pending")).to_have_count(0, timeout=_PATIENCE_MS)
    page.locator(".experiment").last.scroll_into_view_if_needed()


def _preview(page: Page) -> None:
    """See which prompts would have been different."""
    page.get_by_role("button", name="Preview").click()
    page.locator("#preview .preview").wait_for(timeout=10 * _PATIENCE_MS)


def _say(text: str) -> Callable[[Page], None]:
    def said(page: Page) -> None:
        page.get_by_label("Message").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator(".mine").last).to_contain_text(text[:80].strip())

    return said


def _say_and_wait(page: Page) -> None:
    _say("When does it open?")(page)
    expect(page.locator(".pending .live").last).to_contain_text("The Tidal Room")


def _refused(page: Page, text: str = "And the piano?") -> None:
    _say(text)(page)
    expect(page.locator(".notice.bad").last).to_be_visible()


def _say_much(page: Page) -> None:
    _refused(page, "A long letter, line by line.\n" * 800)


def _mistyped(page: Page) -> None:
    page.locator("form.sheet").evaluate("form => { form.noValidate = true; }")
    page.get_by_label("Name").fill("no good name")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".notice.bad")).to_be_visible()


def _tabbed(page: Page) -> None:
    for _ in range(4):
        page.keyboard.press("Tab")


def _show_change(page: Page) -> None:
    page.locator("a", has_text="Show changes").first.click()
    expect(page.locator("#shown pre")).to_be_visible()


def _test(page: Page) -> None:
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#trial .status")).to_be_visible()


def _no_number(page: Page) -> None:
    page.get_by_label("This home, a day, in US dollars").fill("much")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_role("alert")).to_contain_text("must be a number")


def _saved(page: Page) -> None:
    page.get_by_label("This home, a day, in US dollars").fill("5")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()


def _palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search everything").fill("Clara")
    expect(page.locator("#palette-results a").first).to_be_visible()


def _let_in(page: Page) -> None:
    page.get_by_text("Let in…").first.click()


def _rename(page: Page) -> None:
    page.get_by_text("Rename", exact=True).click()


def _upload(page: Page) -> None:
    lines = "".join(
        f'{{"id": {n}, "role": "user", "text": "Note {n}", "time": {_NOTED + n}}}\n' for n in range(40)
    )
    file = FilePayload(name="notes.jsonl", mimeType="application/json", buffer=lines.encode())
    page.get_by_label("Drop an export here").set_input_files(files=[file])
    expect(page.locator("#job")).to_contain_text("What it would bring")


def _decide(page: Page) -> None:
    """Accept one, reject the next, and leave the third open to be corrected."""
    for key, told in (("a", "Accepted"), ("x", "Rejected")):
        page.keyboard.press(key)
        expect(page.get_by_role("status").filter(has_text=told)).to_be_visible()
    page.keyboard.press("c")


def _forget(page: Page) -> None:
    page.get_by_role("link", name="Forget…").click()
    expect(page.get_by_role("button", name="Delete permanently")).to_be_visible()


def _erase(page: Page) -> None:
    """Forget somebody for good: the page shows the receipt."""
    page.locator("td.main a").first.click()
    _forget(page)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete permanently").click()
    page.get_by_role("link", name="Download the receipt").wait_for(timeout=_PATIENCE_MS)


_FORGOTTEN: Final = "/memory/entities?q=Velo"
_FACT: Final = "/memory/facts/{id}"
_CURRENT_FACT: Final = "/memory/facts?q=Clara"
_REVIEW: Final = "/memory/review?days=365"
_NOTED: Final = 1_700_000_000
_ENTITY: Final = "/memory/entities/{id:path}"
_AUTOMATION: Final = "/automations/evening-notes"
_VERSIONED: Final = "/automations/tag-errands"
_ASKED: Final = "/memory?q=why+does+the+Tidal+Room+open+later"
DEMO: Final = (
    Shot(name="home", route="/"),
    Shot(name="palette", route="/", act=_palette),
    Shot(name="search", route="/search"),
    Shot(name="search-found", route="/search", start="/search?q=Lisbon"),
    Shot(name="search-none", route="/search", start="/search?q=zzqx"),
    Shot(name="help", route="/help"),
    Shot(name="chat", route="/chat"),
    Shot(name="chat-session", route="/chat/{label:path}", start="/chat", follow=".talks nav a >> nth=1"),
    Shot(name="chat-memories", route="/chat", act=_unfold_memories),
    Shot(name="chat-without", route="/chat", act=_ask_without),
    Shot(name="chat-pending", route="/chat/{label:path}", start="/chat/tidal-room", act=_say_and_wait),
    Shot(name="chat-refused", route="/chat/{label:path}", start="/chat/piano", act=_refused),
    Shot(name="requests", route="/requests"),
    Shot(name="requests-failed", route="/requests", start="/requests?status=failed"),
    Shot(name="requests-none", route="/requests", start="/requests?status=denied&channel=web"),
    Shot(name="requests-focus", route="/requests", act=_tabbed),
    Shot(name="request", route="/requests/{id}", start="/requests", follow="td.main a"),
    Shot(name="request-dear", route="/requests/{id}", start="/usage?days=90", follow="#expensive + table a"),
    Shot(
        name="request-unfolded",
        route="/requests/{id}",
        start="/usage",
        follow="#expensive + table a",
        act=_unfold,
    ),
    Shot(name="request-failed", route="/requests/{id}", start="/requests?status=failed", follow="td.main a"),
    Shot(name="event", route="/events/{id}", start="/memory/facts", follow="a[href^='/events/']"),
    Shot(name="recall", route="/memory"),
    Shot(name="recall-found", route="/memory", start=_ASKED),
    Shot(name="recall-why", route="/memory", start=_ASKED, act=_unfold),
    Shot(name="recall-nothing", route="/memory", start="/memory?q=zzqx+vvkp"),
    Shot(name="entities", route="/memory/entities"),
    Shot(name="entities-none", route="/memory/entities", start="/memory/entities?q=zzqx"),
    Shot(name="entity", route=_ENTITY, start="/memory/entities?q=Clara", follow="td.main a"),
    Shot(
        name="entity-owner",
        route=_ENTITY,
        start="/memory/entities?q=Mira",
        follow="td.main a",
    ),
    Shot(name="exam", route="/memory/exam"),
    Shot(name="facts", route="/memory/facts"),
    Shot(name="facts-none", route="/memory/facts", start="/memory/facts?q=zzqx"),
    Shot(name="facts-add", route="/memory/facts", act=_unfold),
    Shot(name="fact", route=_FACT, start="/memory/facts", follow=".fact.past .statement a"),
    Shot(
        name="fact-correct",
        route=_FACT,
        start=_CURRENT_FACT,
        follow=".fact:not(.past) .statement a",
        act=_unfold,
    ),
    Shot(name="review", route="/memory/review", start=_REVIEW),
    Shot(name="review-decided", route="/memory/review", start=_REVIEW, act=_decide),
    Shot(name="review-none", route="/memory/review", start="/memory/review?status=rejected&days=1"),
    Shot(name="forget-fact", route="/memory/forget", start="/memory/facts", follow="a[aria-label=Forget]"),
    Shot(
        name="forget-preview",
        route="/memory/forget",
        start="/memory/facts?q=hazelnuts",
        follow="a[aria-label=Forget] >> nth=-1",
        act=_preview,
    ),
    Shot(name="forget-receipt", route="/memory/forget", start=_FORGOTTEN, act=_erase),
    Shot(
        name="forget-entity",
        route="/memory/forget",
        start="/memory/entities?q=Clara",
        follow="td.main a",
        act=_forget,
    ),
    Shot(name="episodes", route="/memory/episodes"),
    Shot(name="episode", route="/memory/episodes/{id}", start="/memory/episodes", follow="td.main a"),
    Shot(name="observations", route="/memory/observations"),
    Shot(name="observations-stale", route="/memory/observations", start="/memory/observations?stale=1"),
    Shot(
        name="observation",
        route="/memory/observations/{id}",
        start="/memory/observations",
        follow=".cards a[href^='/memory/observations/']",
    ),
    Shot(name="models", route="/memory/models"),
    Shot(
        name="model",
        route="/memory/models/{id}",
        start="/memory/models",
        follow=".cards a[href^='/memory/models/']",
    ),
    Shot(name="profile", route="/memory/profile"),
    Shot(name="merges", route="/memory/merges"),
    Shot(name="merges-all", route="/memory/merges", start="/memory/merges?status=all"),
    Shot(name="automations", route="/automations"),
    Shot(name="automation", route="/automations/{name}", start=_AUTOMATION),
    Shot(name="automation-change", route="/automations/{name}", start=_VERSIONED, act=_show_change),
    Shot(name="automation-runs", route="/automations/{name}", start=_AUTOMATION, act=_unfold),
    Shot(
        name="version",
        route="/automations/{name}/versions/{older:int}/{newer:int}",
        start=_VERSIONED,
        follow="a[href*='/versions/']",
    ),
    Shot(
        name="file",
        route="/automations/{name}/files/{file:path}",
        start=_AUTOMATION,
        follow="a[href*='/files/']",
    ),
    Shot(name="reminders", route="/reminders"),
    Shot(name="follow-ups", route="/follow-ups"),
    Shot(name="import", route="/import"),
    Shot(name="import-preview", route="/import/{upload}", start="/import", act=_upload),
    Shot(name="backfill", route="/backfill"),
    Shot(name="automation-new", route="/automations/new"),
    Shot(name="automation-new-refused", route="/automations/new", act=_mistyped),
    Shot(name="automation-script", route="/automations/new/script"),
    Shot(name="automation-edit", route="/automations/{name}/edit", start=f"{_VERSIONED}/edit"),
    Shot(name="automation-test", route="/automations/{name}/edit", start=f"{_VERSIONED}/edit", act=_test),
    Shot(name="sessions", route="/sessions"),
    Shot(name="session", route="/sessions/{label:path}", start="/sessions", follow="td.main a"),
    Shot(
        name="session-worker",
        route="/sessions/{label:path}",
        start="/sessions?kind=workers",
        follow="td.main a",
        act=_unfold,
    ),
    Shot(name="session-rename", route="/sessions/{label:path}", start="/sessions/main", act=_rename),
    Shot(name="session-delete", route="/session-deletion/{label:path}", start="/session-deletion/main"),
    Shot(name="sessions-dates", route="/sessions", start="/sessions?when=custom"),
    Shot(name="chat-long", route="/chat/{label:path}", start="/chat/letter", act=_say_much),
    Shot(name="message", route="/messages/{id}", start="/chat/letter", follow="a[href^='/messages/']"),
    Shot(name="usage", route="/usage"),
    Shot(name="usage-year", route="/usage", start="/usage?days=365"),
    Shot(name="channels", route="/channels"),
    Shot(name="channel", route="/channels/{name}", start="/channels", follow="td.main a[href^='/channels/']"),
    Shot(name="channel-kinds", route="/channels/new"),
    Shot(name="channel-new", route="/channels/new/{kind}", start="/channels/new/email"),
    Shot(name="people", route="/people"),
    Shot(name="people-let-in", route="/people", act=_let_in),
    Shot(name="notifications", route="/notifications"),
    Shot(name="settings", route="/settings"),
    Shot(name="setup", route="/setup"),
    Shot(name="setup-model", route="/setup", start="/setup?provider=anthropic"),
    Shot(name="setup-done", route="/setup", start="/setup?done=1"),
    Shot(name="settings-refused", route="/settings", act=_no_number),
    Shot(name="settings-saved", route="/settings", act=_saved),
    Shot(name="nowhere", route="", start="/nowhere"),
    Shot(name="login-refused", route="", start="/login?code=used"),
)
EMPTY: Final = tuple(
    Shot(name=f"empty{path.replace('/', '-').rstrip('-')}", route=path)
    for path in (
        "/",
        "/chat",
        "/requests",
        "/memory/entities",
        "/memory/facts",
        "/memory/episodes",
        "/memory/observations",
        "/memory/models",
        "/memory/profile",
        "/memory/merges",
        "/memory/exam",
        "/memory/review",
        "/automations",
        "/sessions",
        "/usage",
        "/mcp-servers",
    )
)


def take(page: Page, url: str, shots: Iterable[Shot], folder: Path) -> list[str]:
    """The pictures of some pages; the names of those that the home has no page for."""
    folder.mkdir(parents=True, exist_ok=True)
    missing: list[str] = []
    for shot in shots:
        page.set_viewport_size(_WIDE)
        page.goto(f"{url}{shot.start or shot.route}")
        if shot.follow:
            link = page.locator(shot.follow).first
            if not link.count():
                missing.append(shot.name)
                continue
            page.goto(f"{url}{link.get_attribute('href')}")
        if shot.act:
            shot.act(page)
        _pictures(page, folder / shot.name)
    return missing


def _pictures(page: Page, stem: Path) -> None:
    for variant, (scheme, size) in _VARIANTS.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        page.evaluate("document.querySelector('[data-messages]')?.scrollTo(0, 1e9)")
        page.screenshot(path=f"{stem}-{variant}.png", full_page=True)


@contextmanager
def served(home: Path, model: ModelServer) -> Generator[tuple[str, str]]:
    """The address of a home that is served, and a link that logs in."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))},
        "NEXUS_MODELS_MANAGER": "test/large",
        "NEXUS_PROVIDERS_TEST_KIND": "anthropic",
        "NEXUS_PROVIDERS_TEST_BASE_URL": model.url,
        **{f"NEXUS_CHANNELS_{name.upper()}_KIND": "webhook" for name, _ in _STRANGERS},
        **{f"NEXUS_CHANNELS_{name.upper()}_SECRET": "env:SHOWN_SECRET" for name, _ in _STRANGERS},
        "SHOWN_SECRET": _SECRET,
    }
    command = [str(_NEXUS), "--home", str(home), "up", "--json", "--port", "0"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        yield told["url"], told["login_url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


def _model() -> ModelServer:
    """Writes half an answer, and then refuses."""
    model = ModelServer()
    model.when(lambda asked: asked.last_user.endswith("When does it open?")).always(
        Turn(_ANSWER, faults=[failures.Hold(gate="never", after_deltas=20)])
    )
    # An experiment has no tools.
    model.when(lambda asked: not asked.json.get("tools")).always(
        Turn("Booked: 20 December, 10:40, back on 24 December. What should the host know about hazelnuts?")
    )
    model.always(failures.HttpError("invalid_request"))
    return model


def _look(browser: Browser, home: Path, model: ModelServer, shots: Sequence[Shot], folder: Path) -> list[str]:
    with served(home, model) as (url, login_url):
        context = browser.new_context(viewport=_WIDE)
        context.set_default_timeout(_PATIENCE_MS)
        page = context.new_page()
        page.goto(login_url)
        page.wait_for_url("**/")
        if shots and shots[0] in DEMO:
            _knock(page, url)
        missing = take(page, url, shots, folder)
        context.close()
    return missing


def _knock(page: Page, url: str) -> None:
    """Let strangers write; each is given a code, and waits for access."""
    for channel, name in _STRANGERS:
        said = {
            "id": name,
            "thread": name,
            "sender": name.split()[0].lower(),
            "sender_name": name,
            "text": "Hello?",
        }
        body = json.dumps(said).encode()
        headers = {HEADER: Webhook(channel, secret=_SECRET).sign(body), "content-type": "application/json"}
        assert page.request.post(f"{url}/hooks/{channel}", data=body, headers=headers).ok
    while page.goto(f"{url}/people") and page.locator(".person .kind").count() < len(_STRANGERS):
        page.wait_for_timeout(200)


def _made(home: Path, command: str) -> Path:
    subprocess.run([str(_NEXUS), "--home", str(home), command], check=True, stdout=subprocess.DEVNULL)
    if command == "demo":
        # Two exams make a curve.
        exam = [str(_NEXUS), "--home", str(home), "memory", "exam"]
        for sample in (("--sample", "60"), ()):
            subprocess.run([*exam, *sample], check=True, stdout=subprocess.DEVNULL)
    return home


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only these pages")
    given = parser.parse_args()
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        print("This needs Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    expect.set_options(timeout=_PATIENCE_MS)
    missing: list[str] = []
    with (
        tempfile.TemporaryDirectory() as place,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=executable, args=list(_SWITCHES)) as browser,
        _model() as model,
    ):
        for command, all_shots in (("demo", DEMO), ("init", EMPTY)):
            shots = [shot for shot in all_shots if not given.only or shot.name in given.only]
            if shots:
                home = _made(Path(place) / command, command)
                missing += _look(browser, home, model, shots, given.folder)
    for name in missing:
        print(f"{name}: the home has no such page", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
