"""Lessons that wait for a person: what an automation wants to write down, and what that would change.

They lie in `state/lessons/NAME/`, out of the automation's own reach, and take effect when they are approved.
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from nexus import clock, ids
from nexus.automations import workspace
from nexus.automations.workspace import Folder
from nexus.automations.workspace.history import History
from nexus.errors import AutomationError, UsageError, WorkspaceError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home
from nexus.ledgers.runtime.automations import Automation

NOTHING = "nothing learned"
MOST_CHARACTERS = 6_000
"""How long a file may get that is written anew."""
MOST_ADDED = 2_000
"""How many characters one lesson may add to a file."""
MOST_PATCHED = 20_000
"""How long a file may get by additions: after that, something must be replaced or written anew."""
MOST_EDITS = 8
_FILES = frozenset({workspace.SKILLS, workspace.PATTERNS, workspace.ERRORS})
_BLOCK = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


How = Literal["write", "append", "replace"]


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of one file."""

    file: str
    content: str
    how: How = "write"
    """`write`: the whole file from now on. `append`: added to its end. `replace`: in the place of `old`."""
    old: str = ""

    def apply_to(self, text: str) -> str:
        """The file after the change. Raises where it doesn't fit the file as it is now."""
        if self.how == "write":
            return self.content
        if self.how == "append":
            changed = "\n".join(filter(None, (text.rstrip("\n"), self.content.strip("\n")))) + "\n"
        elif (count := text.count(self.old)) == 1:
            changed = text.replace(self.old, self.content)
        elif count == 0:
            raise AutomationError(f"{self.file} doesn't have the text to replace")
        else:
            raise AutomationError(f"{self.file} has the text to replace {count} times")
        if len(changed) > max(MOST_PATCHED, len(text)):
            raise AutomationError(f"{self.file} would be {len(changed):,} characters long")
        return changed


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
    return [_parse_edit(each) for each in cast("list[object]", listed)]


def find_objection(edits: Iterable[Edit], notes: Sequence[str] = ()) -> str | None:
    """Why edits can never be applied; None if they may be. It judges files and sizes, not what they say.

    `notes` are files for peers that may be changed as well.
    """
    edits = list(edits)
    if len(edits) > MOST_EDITS:
        return f"it wants to make {len(edits)} edits at once"
    written: dict[str, int] = {}
    added: Counter[str] = Counter()
    for edit in edits:
        if edit.file not in notes and not _may_be_changed(edit.file):
            return f"it wants to change {edit.file}"
        if edit.how == "write":
            written[edit.file] = len(edit.content)
        else:
            sizes = written if edit.file in written else added
            sizes[edit.file] += len(edit.content) - len(edit.old)
    for file, characters in written.items():
        if characters > MOST_CHARACTERS:
            return f"{file} would be {characters:,} characters long"
    for file, characters in added.items():
        if characters > MOST_ADDED:
            return f"it wants to add {characters:,} characters to {file}"
    return None


def _parse_edit(value: object) -> Edit:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    match given:
        case {"file": str(file), "append": str(content)}:
            return Edit(file=file, content=content, how="append")
        case {"file": str(file), "old": str(old), "new": str(content)} if old:
            return Edit(file=file, content=content, how="replace", old=old)
        case {"file": str(file), "content": str(content)}:
            return Edit(file=file, content=content)
        case _:
            raise AutomationError("an edit needs a `file`, and `append`, `old` and `new`, or `content`")


def _may_be_changed(file: str) -> bool:
    folder, _, rest = file.partition("/")
    is_note = rest.endswith(".md") and not {"", ".", ".."}.intersection(rest.split("/"))
    return file in _FILES or (folder == workspace.SKILL_FOLDER and is_note)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Edits that were put aside."""

    id: str
    at: str
    reason: str
    edits: tuple[Edit, ...]
    answer: str
    """What the reflection said, where no edits can be read from it."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Lesson":
        fields: dict[str, Any] = {**value, "edits": tuple(Edit(**each) for each in value["edits"])}
        return cls(**fields)


def folder_of(home: Home, name: str) -> Path:
    """Where the lessons of an automation wait."""
    return home.state / "lessons" / name


def put_aside(home: Home, name: str, reason: str, edits: Sequence[Edit], answer: str = "") -> Lesson:
    """Keep edits until somebody decides about them."""
    lesson = Lesson(
        id=ids.new("les"),
        at=clock.timestamp(clock.now()),
        reason=reason,
        edits=tuple(edits),
        answer=answer,
    )
    folder = folder_of(home, name)
    folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    building = folder / f".{lesson.id}"
    building.touch(mode=PRIVATE_FILE)
    building.write_text(json.dumps(lesson.to_json(), indent=2), encoding="utf-8")
    building.replace(folder / f"{lesson.id}.json")
    return lesson


def count_waiting(home: Home) -> dict[str, int]:
    """How many lessons of which automations nobody has decided about."""
    found = Counter(file.parent.name for file in (home.state / "lessons").glob("*/les_*.json"))
    return dict(sorted(found.items()))


def load_pending(home: Home, name: str) -> list[Lesson]:
    """The lessons of an automation that nobody has decided about, the oldest first."""
    files = sorted(folder_of(home, name).glob("les_*.json"))
    return [Lesson.from_json(json.loads(file.read_text(encoding="utf-8"))) for file in files]


def diff_lesson(home: Home, automation: Automation, lesson: Lesson) -> str:
    """What a lesson would change, as a unified diff."""
    folder = Folder(_locate_workspace(home, automation))
    return "".join(
        line
        for edit in lesson.edits
        for line in difflib.unified_diff(
            _lines(_read_text(folder, edit.file)),
            _lines(_preview(edit, _read_text(folder, edit.file))),
            fromfile=f"a/{edit.file}",
            tofile=f"b/{edit.file}",
        )
    )


def approve(home: Home, automation: Automation, lesson_id: str) -> Lesson:
    """Write a lesson to the workspace. Files that are not for lessons stay out of reach."""
    lesson = _find(home, automation.name, lesson_id)
    problem = find_objection(lesson.edits, notes_of(automation)) if lesson.edits else lesson.reason
    if problem:
        raise AutomationError(
            f"{lesson_id} can't be approved: {problem}",
            hint=f"Discard it with `nexus automations lessons {automation.name} --discard {lesson_id}`.",
        )
    apply(home, automation, lesson.edits, f"{automation.name} learned something; approved {lesson_id}")
    _lesson_file(home, automation.name, lesson_id).unlink()
    return lesson


def discard(home: Home, name: str, lesson_id: str) -> Lesson:
    """Drop a lesson."""
    lesson = _find(home, name, lesson_id)
    _lesson_file(home, name, lesson_id).unlink()
    return lesson


def apply(home: Home, automation: Automation, edits: Sequence[Edit], message: str) -> None:
    """Write edits to the workspace, as a commit of its history. It waits for the disk."""
    place = _locate_workspace(home, automation)
    folder = Folder(place)
    changed: dict[str, str] = {}
    for edit in edits:
        text = changed[edit.file] if edit.file in changed else _read_text(folder, edit.file)
        changed[edit.file] = edit.apply_to(text)
    for file, text in changed.items():
        folder.write(file, text)
    if edits:
        History(place).commit(message)


def notes_of(automation: Automation) -> list[str]:
    """The files in which an automation leaves word for its peers."""
    return [workspace.notes_for(Path(each).name) for each in automation.peer_workspaces]


def _locate_workspace(home: Home, automation: Automation) -> Path:
    return workspace.locate(home.meeseeks, automation.workspace_dir or "")


def _lesson_file(home: Home, name: str, lesson_id: str) -> Path:
    return folder_of(home, name) / f"{lesson_id}.json"


def _find(home: Home, name: str, lesson_id: str) -> Lesson:
    for lesson in load_pending(home, name):
        if lesson.id == lesson_id:
            return lesson
    raise UsageError(
        f"{name} has no lesson {lesson_id}", hint=f"List them with `nexus automations lessons {name}`."
    )


def _read_text(folder: Folder, file: str) -> str:
    try:
        return folder.read(file)
    except WorkspaceError:
        return ""


def _preview(edit: Edit, text: str) -> str:
    """A file after an edit; of one that doesn't fit any more, what it wanted to add."""
    try:
        return edit.apply_to(text)
    except AutomationError:
        return f"{text}\n{edit.content}"


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.splitlines()]
