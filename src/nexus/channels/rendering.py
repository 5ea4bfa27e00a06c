"""Answers as HTML, for channels whose programs show it."""

from typing import Final

from markdown_it import MarkdownIt

_markdown: Final = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
"""Without images: what a program loads by itself could tell others what was said."""


def render_html(text: str) -> str:
    """A Markdown text as HTML."""
    return _markdown.render(text)
