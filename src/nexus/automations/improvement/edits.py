"""What a reflection wants to write down: read from its answer, bounded, and checked before it is applied."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from nexus.automations.workspace import workspace
from nexus.errors import AutomationError

NOTHING = "nothing learned"
MOST_CHARACTERS = 6_000
"""How long one file may get: it must be written anew instead of piling up."""
MOST_EDITS = 8
_FILES = frozenset({workspace.SKILLS, workspace.PATTERNS, workspace.ERRORS})
_BLOCK = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_TELL = r"(send|post|print|reveal|include|copy|share|forward|upload|e-?mail|transmit|leak|exfiltrat\w*)"
_CONFIDENTIAL = r"(api[ _-]?key|password|passphrase|secret|token|credential)s?"
_RIGHT = r"(access|permission|right|privilege|tool|network)"
# What lessons never need to say, and messages that mean ill do. A person decides about what is caught.
_SUSPICIOUS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(ignore|disregard|forget)\b.{0,40}\b(instruction|rule|role|polic|constraint)",
        rf"\b(grant|give|allow|enable|unlock|raise|widen)\b.{{0,60}}\b{_RIGHT}",
        rf"\b{_TELL}\b.{{0,80}}(https?://|@\w|\bto\b.{{0,30}}\b(address|server|url|webhook))",
        rf"\b{_TELL}\b.{{0,60}}\b{_CONFIDENTIAL}\b",
        rf"\b{_CONFIDENTIAL}\b.{{0,60}}\b{_TELL}\b",
        r"\b(curl|wget|nc|scp|ssh)\b\s+\S",
        r"\b(sudo|chmod|chown|rm -rf)\b",
        r"\bROLE\.md\b",
        r"</?(system|memory_context|message|situation|input)\b",
    )
)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One file as it is to be from now on."""

    file: str
    content: str


def parse(answer: str) -> list[Edit]:
    """The edits of an answer; none where nothing was learned. Raises where it cannot be read."""
    text = answer.strip()
    if text.casefold().strip(" .!`\"'") == NOTHING:
        return []
    found = _BLOCK.search(text)
    try:
        value = json.loads(found.group(1) if found else text)
    except ValueError as error:
        raise AutomationError(f"the answer cannot be read: {error}") from error
    listed: object = cast("dict[str, Any]", value).get("edits") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise AutomationError("the answer has no list of edits")
    return [_edit(each) for each in cast("list[object]", listed)]


def objection(edits: Iterable[Edit], heard: Iterable[str], notes: Sequence[str] = ()) -> str | None:
    """Why edits are not applied but put aside for a person to look at; None where they may be applied.

    `notes` are files for peers that may be changed as well.
    """
    edits = list(edits)
    if len(edits) > MOST_EDITS:
        return f"it wants to change {len(edits)} files at once"
    told = [_words(text) for text in heard]
    for edit in edits:
        if edit.file not in notes and not _may_be_changed(edit.file):
            return f"it wants to change {edit.file}"
        if len(edit.content) > MOST_CHARACTERS:
            return f"{edit.file} would be {len(edit.content):,} characters long"
        for line in edit.content.splitlines():
            if any(pattern.search(line) for pattern in _SUSPICIOUS):
                copied = ", copied from a message" if any(_words(line) in text for text in told) else ""
                return f"{edit.file} would say {line.strip()[:120]!r}{copied}"
    return None


def _edit(value: object) -> Edit:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    file, content = given.get("file"), given.get("content")
    if not isinstance(file, str) or not isinstance(content, str):
        raise AutomationError("an edit needs a `file` and its `content`")
    return Edit(file=file, content=content)


def _may_be_changed(file: str) -> bool:
    folder, slash, rest = file.partition("/")
    inside = folder == workspace.SKILL_FOLDER and bool(slash) and bool(rest) and ".." not in rest.split("/")
    return file in _FILES or inside


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
