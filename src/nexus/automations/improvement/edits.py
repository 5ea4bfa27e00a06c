"""What a reflection wants to write down: read from its answer and bounded."""

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


def objection(edits: Iterable[Edit], notes: Sequence[str] = ()) -> str | None:
    """Why edits can never be applied; None if they may be. It judges files and sizes, not what they say.

    `notes` are files for peers that may be changed as well.
    """
    edits = list(edits)
    if len(edits) > MOST_EDITS:
        return f"it wants to change {len(edits)} files at once"
    for edit in edits:
        if edit.file not in notes and not _may_be_changed(edit.file):
            return f"it wants to change {edit.file}"
        if len(edit.content) > MOST_CHARACTERS:
            return f"{edit.file} would be {len(edit.content):,} characters long"
    return None


def _edit(value: object) -> Edit:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    file, content = given.get("file"), given.get("content")
    if not isinstance(file, str) or not isinstance(content, str):
        raise AutomationError("an edit needs a `file` and its `content`")
    return Edit(file=file, content=content)


def _may_be_changed(file: str) -> bool:
    folder, _, rest = file.partition("/")
    is_note = rest.endswith(".md") and not {"", ".", ".."}.intersection(rest.split("/"))
    return file in _FILES or (folder == workspace.SKILL_FOLDER and is_note)
