"""Folders with a HOOK.md: front matter that says what the hook is for, and a handler beside it.

The front matter is YAML. `events` names hook points; it and `requires` may also stand inside `metadata`,
below any one name, as in folders that were written for OpenClaw.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from nexus.automations import hook_points
from nexus.automations.scripts.script import HOOK_FILE
from nexus.errors import AutomationError

# What other programs call the same moments.
_SAME = {
    "message:received": "after:receiveEvent",
    "message:sent": "after:deliverResponse",
}
_SETTINGS = ("blocking", "timeout_ms", "retries", "priority")
_HANDLERS = ("handler.py", "handler", "handler.sh")


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One folder."""

    folder: Path
    name: str
    description: str | None
    events: tuple[str, ...]
    handler: Path | None
    requires: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    sandbox: bool | None = None
    """Whether its handler runs in a sandbox, if it says so."""

    @property
    def variables(self) -> list[str]:
        """The variables of the environment that it needs."""
        return _texts(self.requires.get("env"))

    def problem(self, event: str) -> str | None:
        """Why it cannot run at an event; None where it can."""
        if event not in {point.name for point in hook_points.HOOK_POINTS}:
            return f"unknown hook point `{event}`"
        if self.handler is None:
            return f"{self.folder.name} has no handler.py and no executable handler"
        for program in _texts(self.requires.get("bins")):
            if shutil.which(program) is None:
                return f"missing program `{program}`"
        for variable in self.variables:
            if not os.environ.get(variable):
                return f"missing environment variable {variable}"
        return None


def found(hooks: Path) -> tuple[list[Hook], list[str]]:
    """The hooks below a folder, and what is wrong with those that cannot be read."""
    hooks_found: list[Hook] = []
    problems: list[str] = []
    for file in sorted(hooks.glob(f"*/{HOOK_FILE}")):
        try:
            hooks_found.append(read(file))
        except (AutomationError, OSError, UnicodeDecodeError) as error:
            problems.append(f"{file}: {error}")
    return hooks_found, problems


def read(file: Path) -> Hook:
    """Read one HOOK.md."""
    matter = _front_matter(file)
    metadata = _object(matter.get("metadata"))
    inner = next((each for each in map(_object, metadata.values()) if "events" in each), metadata)
    events = tuple(_SAME.get(each, each) for each in _texts(matter.get("events") or inner.get("events")))
    if not events:
        raise AutomationError("its front matter names no `events`")
    return Hook(
        folder=file.parent,
        name=str(matter.get("name") or file.parent.name),
        description=None if matter.get("description") is None else str(matter["description"]),
        events=events,
        handler=_handler(file.parent),
        requires=_object(matter.get("requires") or inner.get("requires")),
        sandbox=_flag(matter, "sandbox"),
        settings={key: matter[key] for key in _SETTINGS if key in matter},
    )


def _flag(matter: dict[str, Any], key: str) -> bool | None:
    value = matter.get(key)
    if value is not None and not isinstance(value, bool):
        raise AutomationError(f"`{key}` in its front matter must be true or false")
    return value


def _front_matter(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8")
    parts = text.split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        raise AutomationError("it does not begin with front matter between two lines `---`")
    try:
        return _object(yaml.safe_load(parts[1]))
    except yaml.YAMLError as error:
        raise AutomationError(f"its front matter is not YAML: {error}") from error


def _handler(folder: Path) -> Path | None:
    for name in _HANDLERS:
        path = folder / name
        if path.is_file() and (path.suffix == ".py" or os.access(path, os.X_OK)):
            return path
    executable = [path for path in sorted(folder.glob("handler.*")) if os.access(path, os.X_OK)]
    return executable[0] if executable else None


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return list(map(str, cast("list[Any]", value))) if isinstance(value, list) else []
