"""The text of what was downloaded, by its type. HTML and PDF are parsed in the sandbox."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nexus import bubblewrap, extras
from nexus.broker.tools.sandbox import Limits, Sandbox
from nexus.broker.tools.web import extract
from nexus.errors import ToolError

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
PDF: Final = "application/pdf"
_TEXT: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
    }
)
_UNNAMED: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_LIMITS: Final = Limits(timeout_ms=30_000, cpu_seconds=30, processes=8, output_bytes=16 * 1024 * 1024)


class UnfinishedError(ToolError):
    """A document wasn't read to its end within its limits."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """What a document says."""

    title: str
    text: str


async def text_of(
    body: bytes,
    media_type: str,
    charset: str = "",
    url: str = "",
    cgroup: Path | None = None,
    cpu_seconds: int = _LIMITS.cpu_seconds,
) -> Text:
    """The text of a document; a ToolError where its type has none, or it can't be read.

    With the URL where it was found, its links are absolute. `cgroup` is what it is parsed in.
    """
    if media_type == PDF or (media_type in _UNNAMED and body.startswith(b"%PDF-")):
        extras.require("pdf", "Reading PDF files", ToolError)
        return await _extract(["pdf", "", ""], body, cgroup, cpu_seconds)
    if media_type in _HTML:
        extras.require("web", "Reading web pages", ToolError)
        return await _extract(["html", charset, url], body, cgroup, cpu_seconds)
    if media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+json", "+xml")):
        return Text(title="", text=_decode(body, charset))
    raise ToolError(
        f"A file of type {media_type or 'unknown'} has no text",
        hint="Pages, plain text, JSON, XML and PDF files can be read.",
    )


def _decode(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset or "utf-8", errors="replace")
    except LookupError:
        return body.decode(errors="replace")


async def _extract(arguments: list[str], body: bytes, cgroup: Path | None, cpu_seconds: int) -> Text:
    # However little of the processor it gets.
    timeout_ms = min(_LIMITS.timeout_ms, cpu_seconds * 5_000)
    limits = replace(_LIMITS, cpu_seconds=cpu_seconds, timeout_ms=timeout_ms)
    program, grants = bubblewrap.python_program(extract.__file__)
    command = [*program, *arguments, *bubblewrap.package_folders()]
    outcome = await Sandbox(grants=grants, cgroup=cgroup).run(command, stdin=body, limits=limits)
    if outcome.killed_by or outcome.exit_code:
        reason = f"it took too much ({outcome.killed_by})" if outcome.killed_by else "its parser failed"
        raise UnfinishedError(f"The document can't be read: {reason}")
    result = json.loads(outcome.stdout)
    if "error" in result:
        raise ToolError(f"The document can't be read: {result['error']}")
    return Text(title=str(result["title"] or ""), text=str(result["text"] or ""))
