"""A script as it lies on disk: what it is, and the hash that tells whether it is what was registered."""

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from nexus import bubblewrap
from nexus.bubblewrap import Grant, Spec
from nexus.errors import AutomationError, ScriptChangedError, ScriptError
from nexus.home import Home
from nexus.ledgers.runtime.automations import Automation, NewAutomation

HOOK_FILE = "HOOK.md"
_MOST_BYTES = 4 * 1024 * 1024
_MOST_FILES = 500
_NOT_CODE = frozenset({"__pycache__", ".git", ".DS_Store"})
VARIABLES = "environment"
"""The setting of an automation that names variables of the environment for its script."""
SANDBOX = "sandbox"
"""The setting of an automation that says whether its script runs in a sandbox."""
LEDGERS = "ledgers"
"""The setting of an automation that lets its agents read the ledgers."""
IN_PROCESS = "python:"
"""How a script path begins that names code of an installed package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """One version of a script. What is run is what was read here, and not read again."""

    path: Path
    hash: str
    source: str | None
    """The text of a Python script; None where it is a program to be started."""
    folder: Path | None
    """The folder whose files belong to it, where it has a HOOK.md."""


def read(path: Path) -> Script:
    """The script at a path; raises ScriptError where there is none that could be run."""
    folder = path.parent if (path.parent / HOOK_FILE).is_file() else None
    try:
        content = _read_content(path)
        hash_ = _hash_folder(folder) if folder else hashlib.sha256(content).hexdigest()
    except OSError as error:
        raise ScriptError(f"Can't read {path}: {error.strerror}") from error
    if path.suffix == ".py":
        return Script(path=path, hash=hash_, source=_decode(path, content), folder=folder)
    if not os.access(path, os.X_OK):
        raise ScriptError(
            f"{path} is neither a Python script nor a program",
            hint="Name it `.py`, or make it executable with `chmod +x`.",
        )
    return Script(path=path, hash=hash_, source=None, folder=folder)


def _read_content(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise ScriptError(f"{path} is larger than {_MOST_BYTES // 1024**2} MiB")
    return path.read_bytes()


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ScriptError(f"{path} is not UTF-8 text: {error}") from error


def _hash_folder(folder: Path) -> str:
    """Of every file by name and content: a handler may import what lies beside it."""
    whole = hashlib.sha256()
    found = sorted(list_files(folder))
    if len(found) > _MOST_FILES:
        raise ScriptError(f"{folder} holds more than {_MOST_FILES} files")
    for file in found:
        name = file.relative_to(folder).as_posix()
        whole.update(f"{name}\0{hashlib.sha256(_read_content(file)).hexdigest()}\n".encode())
    return whole.hexdigest()


def list_files(folder: Path) -> list[Path]:
    """The files that belong to a script's folder."""
    found: list[Path] = []
    for place, directories, names in os.walk(folder):
        directories[:] = [each for each in directories if each not in _NOT_CODE]
        found += [Path(place, name) for name in names if name not in _NOT_CODE]
    return found


def locate(home: Home, recorded: str) -> Path:
    """Where a script lies that the ledger records under a path; a home that was moved takes its own along."""
    path = Path(recorded).expanduser()
    hooks = home.state / "hooks"
    if not path.is_absolute():
        return hooks / path
    parts = path.parts
    for index in range(len(parts) - 1, 0, -1):
        if parts[index - 1 : index + 1] == ("state", "hooks"):
            return hooks.joinpath(*parts[index + 1 :])
    return path


def read_variables(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables of the environment that a registration names in its settings."""
    named = config.get(VARIABLES, [])
    if not isinstance(named, list | tuple) or not all(isinstance(each, str) for each in cast("Any", named)):
        raise AutomationError(
            f"`{VARIABLES}` must be a list of names of variables", hint="Use `--env NAME`, once for each."
        )
    return tuple(cast("Sequence[str]", named))


def is_sandboxed(automation: Automation | NewAutomation) -> bool:
    """Whether a registration wants its script in a sandbox."""
    return _read_flag(automation, SANDBOX)


def reads_ledgers(automation: Automation | NewAutomation) -> bool:
    """Whether a registration lets the automation's agents read the ledgers."""
    return _read_flag(automation, LEDGERS)


def _read_flag(automation: Automation | NewAutomation, setting: str) -> bool:
    wanted = automation.config.get(setting, False)
    if not isinstance(wanted, bool):
        hint = f"Use `--{setting}` or `--no-{setting}`."
        raise AutomationError(f"`{setting}` must be true or false", hint=hint)
    return wanted


def read_registered(home: Home, automation: Automation) -> Script:
    """The script of an automation, which is refused where it was changed since it was registered."""
    if not automation.script_path:
        raise ScriptError(f"`{automation.name}` has no script")
    if automation.script_path.startswith(IN_PROCESS):
        raise ScriptError(f"The package of `{automation.name}` is not installed")
    found = read(locate(home, automation.script_path))
    if found.hash != automation.script_hash:
        raise ScriptChangedError(
            f"The script of `{automation.name}` changed since it was registered",
            hint=f"Review {found.path}, then run `nexus automations register {automation.name}`.",
        )
    return found


PYTHON: Final = os.path.realpath(sys.executable)
"""The interpreter itself: the link to it in a virtual environment leads through paths that are not inside."""
_TEMPORARY_BYTES: Final = 256 * 1024 * 1024


def describe_sandbox(home: Home, script: Script, writable: Iterable[Path]) -> dict[str, Any]:
    """Describe the sandbox to the process that starts a script.

    The home is hidden even if the script lies beside it. A Python script without a folder arrives through
    a pipe, so its directory, which may be the owner's own, isn't mounted.
    """
    own = script.folder or (script.path.parent if script.source is None else None)
    places = [path.resolve() for path in writable]
    readable = {*bubblewrap.python_folders(), *([own.resolve()] if own else [])}
    return {
        "readable": sorted(map(str, readable - set(places))),
        "writable": list(map(str, places)),
        "hidden": str(home.root.resolve()),
        "directory": str(places[0]) if places else "/tmp",  # noqa: S108 - the sandbox's own
        "cgroup": home.cgroup and str(home.cgroup),
    }


def enter_sandbox(asked: Mapping[str, Any], program: list[str]) -> None:
    """Become a program inside the sandbox. Never returns, but for an error."""
    spec = Spec(
        grants=(
            *(Grant(path=Path(path)) for path in asked["readable"]),
            *(Grant(path=Path(path), writable=True) for path in asked["writable"]),
        ),
        hidden=(Path(asked["hidden"]),),
        network=False,
        temporary_bytes=_TEMPORARY_BYTES,
        environment={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(bubblewrap.import_path()),
            "HOME": asked["directory"],
        },
        directory=Path(asked["directory"]),
        cgroup=Path(asked["cgroup"]) if asked["cgroup"] else None,
    )
    bubblewrap.join(spec)
    with bubblewrap.prepare(spec) as (held, opened):
        for descriptor in opened:
            os.set_inheritable(descriptor, True)
        bwrap = bubblewrap.find_program()
        os.execv(bwrap, [bwrap, "--args", str(held), "--", *program])  # noqa: S606 - no shell takes part
