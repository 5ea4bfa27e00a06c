"""The text of what was downloaded, by its type. HTML and PDF are parsed in the sandbox."""

import json
import os
import sys
import sysconfig
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from nexus.broker.tools.sandbox import Grant, Limits, Sandbox
from nexus.broker.tools.web import extract
from nexus.errors import ToolError

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_PDF: Final = "application/pdf"
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


@dataclass(frozen=True, kw_only=True)
class Text:
    """What a document says."""

    title: str
    text: str


async def text_of(
    body: bytes, media_type: str, charset: str = "", url: str = "", cgroup: Path | None = None
) -> Text:
    """The text of a document; a ToolError where its type has none, or it can't be read.

    With the URL where it was found, its links are absolute. `cgroup` is what it is parsed in.
    """
    if media_type == _PDF or (media_type in _UNNAMED and body.startswith(b"%PDF-")):
        return await _extracted(["pdf", "", ""], body, cgroup)
    if media_type in _HTML:
        return await _extracted(["html", charset, url], body, cgroup)
    if media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+json", "+xml")):
        return Text(title="", text=_decoded(body, charset))
    raise ToolError(
        f"A file of type {media_type or 'unknown'} has no text",
        hint="Pages, plain text, JSON, XML and PDF files can be read.",
    )


def _decoded(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset or "utf-8", errors="replace")
    except LookupError:
        return body.decode(errors="replace")


async def _extracted(arguments: list[str], body: bytes, cgroup: Path | None) -> Text:
    program, sandbox = _extractor()
    command = [*program, *arguments, *_site()]
    outcome = await replace(sandbox, cgroup=cgroup).run(command, stdin=body, limits=_LIMITS)
    if outcome.killed_by or outcome.exit_code:
        reason = f"it took too much ({outcome.killed_by})" if outcome.killed_by else "its parser failed"
        raise ToolError(f"The document can't be read: {reason}")
    result = json.loads(outcome.stdout)
    if "error" in result:
        raise ToolError(f"The document can't be read: {result['error']}")
    return Text(title=str(result["title"] or ""), text=str(result["text"] or ""))


@cache
def _extractor() -> tuple[list[str], Sandbox]:
    """The program that extracts, and a sandbox that holds it, the interpreter and installed packages."""
    script = Path(extract.__file__).resolve()
    held = {Path(sys.base_prefix).resolve(), script.parent, *map(Path, _site())}
    grants = tuple(Grant(path=path) for path in sorted(held) if not path.is_relative_to("/usr"))
    # Without `site`: where a system has packages of its own, they would come before those installed here.
    return [os.path.realpath(sys.executable), "-I", "-S", "-B", str(script)], Sandbox(grants=grants)


@cache
def _site() -> list[str]:
    """Where packages are installed: the interpreter in the sandbox knows nothing of an environment."""
    return list(dict.fromkeys(os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")))
