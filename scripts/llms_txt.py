"""A hook of mkdocs: writes `llms.txt` beside the built pages, which tells a language model what is where.

One line for each page of the navigation, with its first sentence; the pages' Markdown is copied beside them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_PLAIN: Final = ((re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"), (re.compile(r"[*`]"), ""))
_SENTENCE: Final = re.compile(r"^.+?[.:](?=\s|$)", re.DOTALL)
_INCLUDED: Final = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)
_ROOT: Final = Path(__file__).parents[1]
_LONGEST: Final = 220
_SKIPPED: Final = ("#", "|", "!", "<", "-", ">", "```", "1.")

_navigation: Any = None


def on_nav(nav: Any, **_: Any) -> Any:
    """Keep the navigation, which says the order and the sections."""
    global _navigation  # noqa: PLW0603 - mkdocs calls functions of this module, one build at a time
    _navigation = nav
    return nav


def on_post_build(config: Any, **_: Any) -> None:
    """Write the file, and the source of each page."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    (site / "llms.txt").write_text("\n".join([*lines, *_list(_navigation.items, site), ""]), encoding="utf-8")


def _list(items: Any, site: Path, section: str = "") -> Iterator[str]:
    """The lines of a level of the navigation: its pages first, under the name of the section."""
    pages = [item for item in items if item.is_page]
    if pages:
        yield from ("", f"## {section or 'Start'}", "")
    for page in pages:
        source = Path(page.file.src_uri)
        text = _INCLUDED.sub(_include, page.markdown or "")
        target = site / source
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        summary = _summarize(text)
        yield f"- [{page.title}]({source}){': ' if summary else ''}{summary}"
    for item in items:
        if item.is_section:
            yield from _list(item.children, site, f"{section}: {item.title}" if section else item.title)


def _include(found: re.Match[str]) -> str:
    """A page that another holds; pictures and their parts are left out."""
    name = found[1]
    return (_ROOT / name).read_text(encoding="utf-8") if name.endswith(".md") else ""


def _summarize(text: str) -> str:
    """The first sentence of a page."""
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.strip() and not paragraph.lstrip().startswith(_SKIPPED):
            plain = " ".join(paragraph.split())
            for pattern, put in _PLAIN:
                plain = pattern.sub(put, plain)
            found = _SENTENCE.match(plain)
            return (found[0] if found else plain)[:_LONGEST]
    return ""
