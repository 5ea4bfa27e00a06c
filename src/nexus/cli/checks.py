"""What `nexus doctor` looks at. Each check yields findings; each finding says what to do."""

import asyncio
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from nexus import __version__, config
from nexus.automations.scripts.script import IN_PROCESS
from nexus.broker.tools import sandbox
from nexus.cli import access_checks, ledger_checks, model_checks
from nexus.cli.ledger_checks import Finding
from nexus.cli.place import counted, size
from nexus.errors import ConfigError, LedgerError
from nexus.home import Home
from nexus.ledgers import attach, health, sql
from nexus.ledgers.runtime import invocations
from nexus.roles.bundled import switched_off
from nexus.roles.memory_writer import describe_cost
from nexus.serving import serving
from nexus.skills import folder

_LITTLE_SPACE_BYTES = 1024**3
_NO_SPACE_BYTES = 100 * 1024**2
_OLDEST_SQLITE = (3, 37)
_NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs"})


def examine(home: Home, *, thorough: bool, creates_empty: bool = False) -> Iterator[Finding]:
    """Every finding about a home, in the order in which a person would look."""
    yield from _versions()
    yield from _sandbox()
    closed = list(access_checks.closed(home))
    if closed:
        yield from closed
        return
    if not home.exists:
        yield Finding(
            check="home",
            level="error",
            message=f"No home at {home.root}",
            remedy="Run `nexus init`.",
        )
        return
    yield from _layout(home)
    yield from access_checks.examine_permissions(home)
    yield from _configuration(home)
    yield from ledger_checks.examine_ledgers(home, thorough=thorough, creates_empty=creates_empty)
    yield from model_checks.examine_automations(home)
    yield from _engine(home, thorough=thorough)
    yield from _failed_embeddings(home)
    yield from _failed_invocations(home)
    yield from _attach_files(home)
    yield from _leftovers(home)
    yield from _sockets(home)
    yield from _skills(home)
    yield from _disk(home)
    yield from _filesystem(home)


def _versions() -> Iterator[Finding]:
    import apsw

    yield Finding(
        check="versions",
        level="ok",
        message=(
            f"nexus {__version__}, Python {platform.python_version()}, "
            f"SQLite {apsw.sqlite_lib_version()}, {platform.system()} {platform.machine()}"
        ),
    )
    program = shutil.which("sqlite3")
    if program is None:
        yield Finding(
            check="programs",
            level="warning",
            message="The sqlite3 program is not installed. `nexus sql` works without it; agents need it",
            remedy="Install it, for example with `apt-get install sqlite3` or `brew install sqlite`.",
        )
        return
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - an argument list, no shell
    number = told.split(" ", 1)[0]
    if tuple(int(part) for part in number.split(".")[:2] if part.isdigit()) < _OLDEST_SQLITE:
        yield Finding(
            check="programs",
            level="warning",
            message=f"sqlite3 {number} is too old for these databases",
            remedy="Install version 3.37 or later.",
        )
    else:
        yield Finding(check="programs", level="ok", message=f"sqlite3 {number}")


def _sandbox() -> Iterator[Finding]:
    trouble = asyncio.run(sandbox.availability())
    if trouble is None:
        yield Finding(check="sandbox", level="ok", message="Sandbox available")
    else:
        yield Finding(check="sandbox", level="warning", message=trouble.reason, remedy=trouble.hint)


def _layout(home: Home) -> Iterator[Finding]:
    missing = [path for path in (*home.directories, home.config_file, home.lock_file) if not path.exists()]
    for path in missing:
        yield Finding(
            check="layout",
            level="error",
            message=f"{path.relative_to(home.root)} is missing",
            remedy="Run `nexus doctor --fix` or `nexus init` to create it.",
            fix=home.create,
        )
    if not missing:
        yield Finding(check="layout", level="ok", message=f"The home at {home.root} is complete")


def _configuration(home: Home) -> Iterator[Finding]:
    try:
        loaded = config.load(home.config_file)
    except ConfigError as error:
        yield Finding(check="config", level="error", message=error.message, remedy=error.hint)
    else:
        yield Finding(check="config", level="ok", message="config.toml is valid")
        yield from _models(loaded)
        yield from access_checks.grants(home, loaded)
        yield from access_checks.secret_files(loaded)
        yield from access_checks.examine_reach(home, loaded)


def _models(loaded: config.Config) -> Iterator[Finding]:
    for problem in model_checks.unlimited(loaded):
        yield Finding(check="budgets", level="warning", message=problem.message, remedy=problem.hint)
    missing = list(model_checks.problems(loaded))
    for problem in missing:
        yield Finding(check="models", level="warning", message=problem.message, remedy=problem.hint)
    try:
        chosen = model_checks.chosen(loaded)
    except ConfigError as error:
        # A home without an agent is a whole home: its ledgers and its memory can be used.
        yield Finding(check="models", level="off", message="No model configured", remedy=error.hint)
    else:
        if not missing:
            yield Finding(check="models", level="ok", message=f"Manager: {chosen}")
        if told := describe_cost(loaded):
            yield Finding(check="memory", level="ok", message=told)
        else:
            yield Finding(
                check="memory",
                level="off",
                message="The memory writer is off: nothing is learned from conversations",
                remedy='Set `writer = "manager"` or another model in [models] in config.toml to turn it on.',
            )
        for path, reason in switched_off(loaded).items():
            name = path.removeprefix(IN_PROCESS)
            yield Finding(check="automations", level="off", message=f"{name} is off: {reason}")


def _engine(home: Home, *, thorough: bool) -> Iterator[Finding]:
    try:
        settings = config.load(home.config_file).engine
    except ConfigError:
        return  # told already
    is_used = bool(settings.database) or home.engine_file.is_file()
    if not is_used and not thorough:
        return
    # Only here, because it brings the whole engine with it.
    from nexus.cli import engine_checks
    from nexus.engine.settings import Settings

    try:
        of_home = Settings.of_home(home, settings)
    except ConfigError as error:
        yield Finding(check="engine", level="error", message=error.message, remedy=error.hint)
    else:
        if is_used:
            yield from engine_checks.examine(home, of_home, thorough=thorough)
        if thorough:
            yield from engine_checks.examine_invariants(home, of_home)


def _failed_embeddings(home: Home) -> Iterator[Finding]:
    try:
        with health.reading(home.ledger("embeddings"), "embeddings") as connection:
            failed = connection.execute(sql.queries("embeddings")["failed"]).get
    except LedgerError:
        return  # reported above
    if failed:
        yield Finding(
            check="memory",
            level="warning",
            message=f"{counted(failed, 'text')} could not be embedded, and can be found by words only",
            remedy="`nexus logs` says why. To try again, run `nexus memory embeddings --check`.",
        )


def _failed_invocations(home: Home) -> Iterator[Finding]:
    try:
        with health.reading(home.ledger("runtime"), "runtime") as connection:
            dead = invocations.count_dead(connection)
    except LedgerError:
        return  # reported above
    if dead:
        yield Finding(
            check="automations",
            level="warning",
            message=f"{counted(dead, 'async invocation')} failed every attempt",
            remedy="List them with `nexus automations retry`; add `--all` to retry, or `--all --dismiss`.",
        )


def _attach_files(home: Home) -> Iterator[Finding]:
    for writes in (False, True):
        file = attach.path(home, writes=writes)
        if not file.is_file() or file.read_text(encoding="utf-8") != attach.script(home, writes=writes):
            yield Finding(
                check="attach",
                level="warning",
                message=f"{file.name} is missing or has outdated paths",
                remedy="Run `nexus doctor --fix`.",
                fix=lambda: attach.ensure(home),
            )


def _leftovers(home: Home) -> Iterator[Finding]:
    for path in (*home.root.glob(".*.new_*"), *home.data.glob(".*.new_*")):
        yield Finding(
            check="leftovers",
            level="warning",
            message=f"{path.name} was left by an interrupted `nexus init`",
            remedy="Run `nexus doctor --fix` to delete it.",
            fix=path.unlink,
        )


def _sockets(home: Home) -> Iterator[Finding]:
    for path in sorted(home.run.rglob("*.sock")) if serving(home) is None else ():
        yield Finding(
            check="leftovers",
            level="warning",
            message=f"{path.relative_to(home.root)} was left by a killed process",
            remedy="Run `nexus doctor --fix` to delete it, or `nexus up` to replace it.",
            fix=lambda path=path: path.unlink(missing_ok=True),
        )


def _skills(home: Home) -> Iterator[Finding]:
    for path in folder.unread(home.meeseeks):
        edited = path.with_name(path.name.removesuffix(folder.NEW))
        yield Finding(
            check="skills",
            level="warning",
            message=f"{edited.relative_to(home.meeseeks)} was edited, and a new version is available",
            remedy=f"Compare it with {path}, merge the changes, and delete that file.",
        )


def _disk(home: Home) -> Iterator[Finding]:
    free = shutil.disk_usage(home.root).free
    used = sum(path.stat().st_size for path in home.data.iterdir() if path.is_file())
    message = f"{size(free)} free, {size(used)} used by the ledgers"
    if free < _NO_SPACE_BYTES:
        remedy = "Free disk space now: writes will soon fail."
        yield Finding(check="disk", level="error", message=message, remedy=remedy)
    elif free < max(_LITTLE_SPACE_BYTES, used):
        remedy = "Free disk space: a backup or a forget needs as much again as the ledgers use."
        yield Finding(check="disk", level="warning", message=message, remedy=remedy)
    else:
        yield Finding(check="disk", level="ok", message=message)


def _filesystem(home: Home) -> Iterator[Finding]:
    kind = _filesystem_of(home.data)
    if kind in _NETWORK_FILESYSTEMS:
        yield Finding(
            check="filesystem",
            level="error",
            message=f"The home is on a network file system ({kind}), where SQLite's locks don't work",
            remedy="Move it to a local disk: `nexus backup`, then `nexus --home LOCAL restore`.",
        )


def _filesystem_of(path: Path) -> str:
    """The kind of file system that holds a path, or nothing where the system doesn't tell."""
    try:
        mounts = [line.split(" ") for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    holding = [(mount[1], mount[2]) for mount in mounts if path.is_relative_to(mount[1])]
    return max(holding, key=lambda pair: len(pair[0]))[1] if holding else ""
