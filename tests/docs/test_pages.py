"""What the pages must hold, and that they hold together."""

import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import apsw
import pytest
from markdown.extensions.toc import slugify
from playwright.sync_api import Browser, sync_playwright
from pygments.lexers import find_lexer_class_by_name

from nexus.home import LEDGERS
from nexus.ledgers import migrate

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
_WORDS = """
home, ledger, event, request, stage, hook point, automation, invocation, execution, session, workspace, peer,
role, skill, entity, alias, fact, relationship, episode, observation, mental model, recall, injection
"""
_DESCRIBE = """
import pathlib, sys
from pages import tables
tables.describe(pathlib.Path(sys.argv[1]), sys.argv[2])
"""
ColorScheme = Literal["light", "dark"]
_REMOTE = re.compile(r"<(?:script|img|iframe|link|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    # Not --quiet: it drops warnings before --strict can count them.
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _reference(*options: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, str(_ROOT / "scripts" / "reference.py"), *options]
    return subprocess.run(words, capture_output=True, text=True)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference, generated now."""
    folder = tmp_path_factory.mktemp("reference")
    done = _reference("--folder", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_the_generated_reference_is_current_and_the_same_every_time(generated: Path) -> None:
    names = sorted(page.name for page in generated.iterdir())
    assert names == ["commands.md", "errors.md", "hook-points.md", "http-api.md", "schema.md", "settings.md"]
    for name in names:
        assert (generated / name).read_bytes() == (_DOCS / "reference" / name).read_bytes(), name


def test_a_stale_page_is_named_with_what_differs_and_what_to_run(generated: Path, tmp_path: Path) -> None:
    shutil.copytree(generated, tmp_path, dirs_exist_ok=True)
    page = tmp_path / "settings.md"
    text = page.read_text(encoding="utf-8")
    shown = "default `30000`, variable `NEXUS_LEDGERS_BUSY_TIMEOUT_MS`"
    page.write_text(text.replace(shown, shown.replace("30000", "29000")), encoding="utf-8")
    (tmp_path / "errors.md").unlink()
    done = _reference("--folder", str(tmp_path), "--check")
    assert done.returncode == 1
    assert f"{page} is stale" in done.stderr
    assert "+`int`, default `30000`, variable `NEXUS_LEDGERS_BUSY_TIMEOUT_MS`" in done.stderr
    assert f"{tmp_path / 'errors.md'} is stale" in done.stderr
    assert "schema.md" not in done.stderr
    assert "python scripts/reference.py" in done.stderr
    assert "29000" in page.read_text(encoding="utf-8")


def _describe(path: Path, ledger: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", _DESCRIBE, str(path), ledger]
    return subprocess.run(words, cwd=_ROOT / "scripts", capture_output=True, text=True)


def test_a_table_without_a_purpose_stops_the_generator(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    migrate.build(path, "events")
    assert _describe(path, "events").returncode == 0
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE mystery (\n  id TEXT PRIMARY KEY -- mys_…\n) STRICT")
    connection.close()
    done = _describe(path, "events")
    assert done.returncode == 1
    assert "events.mystery has no purpose" in done.stderr


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_table_and_view_is_on_the_schema_page(tmp_path: Path, ledger: str) -> None:
    migrate.build(tmp_path / "ledger.db", ledger)
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    rows = connection.execute("PRAGMA main.table_list").fetchall()
    connection.close()
    names = {str(row[1]) for row in rows if row[2] != "shadow" and not str(row[1]).startswith("sqlite_")}
    page = (_DOCS / "reference" / "schema.md").read_text(encoding="utf-8")
    described = set(re.findall(rf"^### `(\w+)` {{ #(?:{ledger}-)?\1 }}$", page, re.MULTILINE))
    assert names <= described
    assert len(names) > 1


def test_every_word_of_the_glossary_is_defined_by_one_sentence() -> None:
    text = (_DOCS / "glossary.md").read_text(encoding="utf-8")
    defined = dict(re.findall(r"^## (.+)\n\n((?:.+\n)+)", text, re.MULTILINE))
    assert sorted(word.lower() for word in defined) == sorted(re.split(r",\s+", _WORDS.strip()))
    for word, definition in defined.items():
        sentence = definition.replace("*Planned.*", "").strip().replace("\n", " ")
        assert re.fullmatch(r"[A-Z][^.]*(\.[^ ][^.]*)*\.", sentence), word


def _beside() -> list[Path]:
    """Documents that the site does not hold: those at the root, and of examples."""
    return [*_ROOT.glob("*.md"), *(_ROOT / "examples").rglob("*.md")]


def _anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings as GitHub and the site spell them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    given = set(re.findall(r"{ #([\w-]+) }", text))
    return given | {
        slugify(words.replace("`", ""), "-") for words in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("file", _beside(), ids=lambda file: str(file.relative_to(_ROOT)))
def test_links_of_the_files_beside_the_docs_lead_somewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
        place = (file.parent / target) if target else file
        assert place.exists(), f"{file.name}: {target}"
        assert not anchor or anchor in _anchors(place), f"{file.name}: {target}#{anchor}"


_EVERY_PAGE = [*_beside(), *_DOCS.rglob("*.md")]


@pytest.mark.parametrize("page", _EVERY_PAGE, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_block_of_code_says_what_it_is(page: Path) -> None:
    fences = re.findall(r"^ *```(?!`)(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    for opening in fences[::2]:
        # `{ .python }` is how a block is shown that the tests of sessions are not to run.
        [name, *_] = re.findall(r"\w+", opening) or [""]
        assert find_lexer_class_by_name(name)


@pytest.mark.parametrize("page", _EVERY_PAGE, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_image_is_told_in_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "![](" not in text
    assert all("alt=" in tag for tag in re.findall(r"<img[^>]*>", text))
    for name in re.findall(r'^--8<-- "docs/(diagrams/[^"]+)"$', text, re.MULTILINE):
        assert (_DOCS / name).is_file(), name


def test_every_diagram_is_shown_told_and_drawn_in_the_colours_of_the_page() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in _DOCS.rglob("*.md"))
    known = set(
        re.findall(r"figure\.diagram [^{]*?\.([a-z]+)", (_DOCS / "assets/extra.css").read_text("utf-8"))
    )
    diagrams = list((_DOCS / "diagrams").glob("*.svg"))
    assert len(diagrams) > 5
    for file in diagrams:
        drawn = file.read_text(encoding="utf-8")
        assert f'--8<-- "docs/diagrams/{file.name}"' in shown, file.name
        assert re.search(r'role="img" aria-label="[^"]{40,}"', drawn), file.name
        used = {name for names in re.findall(r'class="([^"]+)"', drawn) for name in names.split()}
        assert used <= known, f"{file.name}: {used - known}"
        assert not re.search(r"(?:fill|stroke)=", drawn), f"{file.name} has a colour of its own"


def test_the_site_asks_nothing_of_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    found = [
        f"{page.name}: {tag}" for page in pages for tag in _REMOTE.findall(page.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_every_page_can_be_searched_and_reached(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    for page in _DOCS.rglob("*.md"):
        address = str(page.relative_to(_DOCS).with_suffix(".html"))
        assert (site / address).is_file(), address
        assert f'"location":"{address}' in index, address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_narrow_screen_and_pictures_follow_the_palette(site: Path, scheme: ColorScheme) -> None:
    """In a real browser, from the folder: nothing sticks out, text can be read, and nobody is asked."""
    pages = ["index", "comparison", "quickstart", "architecture", "reference/hook-points", "reference/schema"]
    pages += [f"concepts/{name}" for name in ("recall", "security", "requests", "crashes")]
    pages += [f"how-to/{name}" for name in ("write-an-automation", "look-behind-an-answer")]
    with _browser() as browser:
        page = browser.new_page(viewport={"width": 380, "height": 800}, color_scheme=scheme)
        page.set_default_timeout(60_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in pages:
            page.goto((site / f"{name}.html").as_uri())
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 380, f"{name} is {width} pixels wide"
            for ink, paper in page.evaluate(_COLOURS):
                assert (
                    _light(ink) > 150 > _light(paper)
                    if scheme == "dark"
                    else _light(ink) < 150 < _light(paper)
                )
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


_COLOURS = """[...document.querySelectorAll("figure.diagram text:not(.small)")].map(text =>
  [getComputedStyle(text).fill, getComputedStyle(document.body).backgroundColor])"""


def _light(colour: str) -> float:
    """How light a colour is, from 0 to 255."""
    channels = [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
    return sum(channels) / 3


@contextmanager
def _browser() -> Generator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no chromium on this machine: install it to run this part")
    with sync_playwright() as playwright:
        switches = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=program, args=switches, timeout=120_000)
        yield browser
        browser.close()


def test_llms_txt_names_every_page_with_its_source(site: Path) -> None:
    listed = re.findall(
        r"^- \[[^\]]+\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = {str(page.relative_to(_DOCS)) for page in _DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(pages)
    for page in listed:
        source = (site / page).read_text(encoding="utf-8")
        assert re.search("^# ", source, re.MULTILINE)
        assert not re.search("^--8<--", source, re.MULTILINE)
