"""Turns a page or a PDF on standard input into text, as a program of its own that runs in the sandbox.

Parsers of strangers' files are where programs are attacked, and a small file can keep one busy for minutes:
here it has no network, no files and a limit of everything. Usage: extract.py KIND CHARSET URL SITE…
"""

import importlib
import io
import json
import sys
from contextlib import suppress
from typing import Any


def html(data: bytes, charset: str, url: str) -> dict[str, Any]:
    """The readable part of a page as Markdown; the whole text of one that has no such part."""
    import trafilatura

    parser: Any = importlib.import_module("lxml.html")  # it has no types

    page: Any = data
    with suppress(LookupError):
        page = data.decode(charset, errors="replace") if charset else data
    text = trafilatura.extract(
        page,
        url=url or None,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    whole: Any = parser.document_fromstring(page)
    title = whole.findtext(".//title") or ""
    for unread in whole.xpath("//script | //style | //noscript | //head"):
        unread.drop_tree()
    return {"title": " ".join(title.split()), "text": text or " ".join(whole.text_content().split())}


def pdf(data: bytes, charset: str, url: str) -> dict[str, Any]:
    """The text of a PDF, page by page."""
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "The PDF is encrypted"}
    pages = [f"[page {number}]\n{page.extract_text()}" for number, page in enumerate(reader.pages, 1)]
    title = reader.metadata.title if reader.metadata else None
    return {"title": str(title or ""), "text": "\n\n".join(pages)}


def main() -> None:
    kind, charset, url, *site = sys.argv[1:]
    sys.path += site
    try:
        result = {"html": html, "pdf": pdf}[kind](sys.stdin.buffer.read(), charset, url)
    except Exception as error:  # whatever a parser raises over what a stranger wrote
        result = {"error": type(error).__name__}  # its message may quote the document
    sys.stdout.buffer.write(json.dumps(result).encode())


if __name__ == "__main__":
    main()
