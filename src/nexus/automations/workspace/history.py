"""The history of a workspace, in git: what an agent taught itself can be shown, compared and undone.

The repository lies beside the workspaces and not inside of one: its settings can make git run programs,
and whoever writes in a workspace must not be able to write those. A `.git` file in the workspace points
there, so that a person's own `git log` works.

These functions wait for git: in a program with an event loop they belong on a thread.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nexus.errors import WorkspaceError

_TIMEOUT_S = 60
# Nothing of the person's own settings, no hooks, and no looking into repositories inside a workspace.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "diff.ignoreSubmodules=all",
    "gc.auto=0",
    "user.name=Nexus",
    "user.email=nexus@localhost",
)
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
}
_FIELDS = "%h%x09%cI%x09%s"
_MOST_CHANGES = 1_000
_UNRECORDED = "Changes since the last run"
_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40,64})", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One commit."""

    commit: str
    at: str
    message: str


class History:
    """The repository of one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._repository = workspace.parent / ".history" / f"{workspace.name}.git"

    def commit(self, message: str) -> str | None:
        """Record the workspace as it is. None: nothing had changed, or there is no git here."""
        if shutil.which("git") is None:
            return None
        self._ensure()
        self._git("add", "--all", "--", ".", *self._find_nested_repositories())
        if self._git("diff", "--cached", "--quiet", check=False).returncode == 0:
            return None
        self._git("commit", "--quiet", "--no-verify", "--message", message)
        return self._git("rev-parse", "--short", "HEAD").stdout.strip()

    def changes(self, limit: int = 20) -> list[Change]:
        """The newest commits."""
        if not self._repository.is_dir():
            return []
        done = self._git("log", f"--max-count={limit}", f"--format={_FIELDS}", check=False)
        return [_change(line) for line in done.stdout.splitlines()]

    def difference(self, commit: str) -> str:
        """What one commit changed."""
        return self._git("show", "--no-ext-diff", "--no-textconv", "--format=", commit, "--").stdout

    def undo(self, commit: str | None = None) -> Change:
        """Revert a commit, and return it. Default: the newest that isn't undone yet and is no undo itself.

        Unrecorded changes are recorded first, and stay by default. A commit that later ones build on stays.
        """
        self.commit(_UNRECORDED)
        known = self.changes(_MOST_CHANGES) if commit else self._not_undone()
        found = next((each for each in known if commit in {None, each.commit}), None)
        # The first one holds the files that the workspace began with.
        if found is None or found == self._first():
            raise WorkspaceError(
                f"The workspace of {self._workspace.name} has no change {commit or 'to undo'}",
                hint=f"List them with `nexus automations history {self._workspace.name}`.",
            )
        reverting = ("revert", "--no-edit", "--no-gpg-sign", found.commit)
        if self._git(*reverting, check=False).returncode:
            is_empty = self._git("diff", "--cached", "--quiet", check=False).returncode == 0
            self._git("revert", "--abort", check=False)
            if is_empty:
                raise WorkspaceError(f"Nothing to undo in {found.commit}. It is undone already.")
            raise WorkspaceError(
                f"{found.commit} can't be undone alone: later changes build on it",
                hint="Undo those first, the newest first.",
            )
        return found

    def _not_undone(self) -> list[Change]:
        """The newest commits without those that are undone, undo others or were recorded by an undo."""
        if not self._repository.is_dir():
            return []
        log = ("log", "-z", f"--max-count={_MOST_CHANGES}", f"--format=%H%n{_FIELDS}%n%b")
        undone: set[str] = set()
        found: list[Change] = []
        for entry in filter(None, self._git(*log, check=False).stdout.split("\0")):
            commit, line, body = entry.split("\n", 2)
            # The newest come first: an undo that was itself undone doesn't count.
            if commit in undone:
                continue
            if reverted := _REVERTED.search(body):
                undone.add(reverted[1])
            elif (change := _change(line)).message != _UNRECORDED:
                found.append(change)
        return found

    def _first(self) -> Change:
        return _change(self._git("log", "--max-parents=0", f"--format={_FIELDS}").stdout.splitlines()[-1])

    def points_here(self) -> bool:
        """Whether the workspace's `.git` is the one that was laid there. An agent may have changed it."""
        pointer = self._workspace / ".git"
        is_plain = pointer.is_file() and not pointer.is_symlink()
        return is_plain and pointer.read_text(errors="replace") == self._pointer

    @property
    def _pointer(self) -> str:
        return f"gitdir: ../.history/{self._repository.name}\n"

    def _ensure(self) -> None:
        if not self._repository.is_dir():
            self._repository.parent.mkdir(mode=0o700, exist_ok=True)
            self._git("init", "--quiet", "--initial-branch=main", work_tree=False)
            # Its files are wherever the `.git` file that points to it lies, also in a home that was moved.
            self._git("config", "core.bare", "false", work_tree=False)
        if not self.points_here():
            pointer = self._workspace / ".git"
            if pointer.is_dir() and not pointer.is_symlink():
                shutil.rmtree(pointer)
            pointer.unlink(missing_ok=True)
            pointer.write_text(self._pointer, encoding="utf-8")

    def _find_nested_repositories(self) -> list[str]:
        """Repositories inside the workspace: git would read their settings."""
        found: list[str] = []
        for place, directories, names in os.walk(self._workspace):
            here = Path(place).relative_to(self._workspace)
            if here != Path() and ".git" in {*directories, *names}:
                found.append(f":(exclude,literal){here.as_posix()}")
                directories.clear()
        return found

    def _git(
        self, *words: str, check: bool = True, work_tree: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        command = ["git", f"--git-dir={self._repository}"]
        if work_tree:
            command.append(f"--work-tree={self._workspace}")
        for setting in _SETTINGS:
            command += ["-c", setting]
        done = subprocess.run(  # noqa: S603 - an argument list, no shell
            [*command, *words],
            cwd=self._workspace,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if check and done.returncode:
            raise WorkspaceError(f"git {words[0]} failed in {self._workspace.name}: {done.stderr.strip()}")
        return done


def _change(line: str) -> Change:
    commit, at, message = line.split("\t", 2)
    return Change(commit=commit, at=at, message=message)
