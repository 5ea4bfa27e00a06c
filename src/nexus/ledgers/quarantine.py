"""Hold back what a home from a file could run, until its owner approves it.

A backup or an export may come from anybody, and a home is more than data: scripts run at hook points,
settings start programs and name the servers that keys are sent to. Without `--trust` these arrive off:

- automations are disabled and `HOOK.md` folders are registered as disabled;
- skills are disabled;
- settings that run, send or open something are moved from config.toml to `state/imported.toml`;
- git settings of workspaces, which can name programs, are written anew;
- links that leave the home, or stand where the program looks for code, are left out;
- a database with triggers or views that Nexus did not make is refused.
"""

import shutil
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

import apsw
import tomlkit

from nexus import config
from nexus.config import LedgersConfig
from nexus.errors import CareError
from nexus.home import LEDGERS, PRIVATE_FILE, Home
from nexus.ledgers import files, sql
from nexus.ledgers.connection import connect
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.runtime import automations
from nexus.text import join_lines

_IN_PROCESS: Final = "python:"
_PROGRAMS: Final = "SELECT name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view')"
_GIT_CONFIG: Final = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
# The engine's library unpickles a value whose row names this serializer. Nexus never writes it.
_PICKLE: Final = "py_pickle"


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Something that arrived switched off."""

    kind: str
    """`automation`, `hook`, `skill`, `setting`, `link` or `git settings`."""
    name: str
    sha256: str | None = None
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        hash_ = f"  sha256 {self.sha256[:12]}" if self.sha256 else ""
        return f"{self.kind} {self.name}{hash_}{f'  {self.detail}' if self.detail else ''}"


def imported_settings(home: Home) -> Path:
    """Return the settings of an imported config.toml that wait for approval."""
    return home.state / "imported.toml"


def imported_hooks(home: Home) -> Path:
    """Return the names of the hook folders that came with an import, one in each line."""
    return home.state / "hooks" / ".imported"


def hold(place: Home) -> tuple[Held, ...]:
    """Switch off what could run in a home that is being built, and say what that is."""
    _refuse_programs(place)
    held = [
        *_links(place),
        *_settings(place),
        *_git(place),
        *_hooks(place),
        *_skills(place),
        *_automations(place),
    ]
    return tuple(held)


def _refuse_programs(place: Home) -> None:
    """Triggers and views run SQL of the file's author whenever Nexus reads or writes."""
    for name in LEDGERS:
        path = place.ledger(name)
        with translate_errors(name, path), closing(apsw.Connection(str(path))) as connection:
            # With their texts: a known name with another text is foreign too.
            foreign = _programs(connection) - _known_programs(name)
        if foreign:
            raise _foreign(f"The {name} ledger", ", ".join(sorted(dict(foreign))))
    if place.engine_file.is_file():
        with closing(sqlite3.connect(place.engine_file)) as engine:
            found = sorted(str(name) for name, _ in engine.execute(_PROGRAMS))
            found += [f"a pickled value in {table}" for table in _find_pickled(engine)]
        if found:
            raise _foreign("The engine's database", ", ".join(found))


def _programs(connection: apsw.Connection) -> set[tuple[str, str]]:
    rows = connection.execute(_PROGRAMS)
    return {(str(name), join_lines(str(text))) for name, text in rows}


def _known_programs(ledger: str) -> set[tuple[str, str]]:
    """Return those of every release's schema, because a backup may be older than this program."""
    known: set[tuple[str, str]] = set()
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(sql.text(ledger, "schema.sql"))
        known |= _programs(connection)
    with closing(apsw.Connection(":memory:")) as connection:
        for _, _, statements in sql.migrations(ledger):
            connection.execute(statements)
            known |= _programs(connection)
    return known


def _find_pickled(engine: sqlite3.Connection) -> Iterator[str]:
    tables = engine.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    for (table,) in tables:
        columns = [row[1] for row in engine.execute("SELECT * FROM pragma_table_info(?)", (table,))]
        if "serialization" in columns:
            quoted = str(table).replace('"', '""')
            row = engine.execute(f'SELECT 1 FROM "{quoted}" WHERE serialization = ?', (_PICKLE,))  # noqa: S608 - a name is no parameter
            if row.fetchone():
                yield str(table)


def _foreign(what: str, found: str) -> CareError:
    return CareError(
        f"{what} contains foreign code: {found}",
        hint="Nothing changed. If you added this yourself, pass --trust.",
    )


def _links(place: Home) -> Iterator[Held]:
    hooks = place.state / "hooks"
    root = place.root.resolve()
    for path in [place.config_file, place.state, *place.state.rglob("*")]:
        if not path.is_symlink():
            continue
        target = path.readlink()
        inside = not target.is_absolute() and (path.parent.resolve() / target).resolve().is_relative_to(root)
        if not inside or path in {place.config_file, *place.directories} or path.is_relative_to(hooks):
            path.unlink()
            yield Held(kind="link", name=str(path.relative_to(place.root)), detail=f"to {target}")


def _settings(place: Home) -> Iterator[Held]:
    waiting = imported_settings(place)
    _clear(waiting)
    try:
        text = place.config_file.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (FileNotFoundError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return  # the program reads it with the same parser, so it can set nothing
    held = config.find_held(tables)
    if not held:
        return
    rest = _without(text, held)
    _write(waiting, tomlkit.dumps(held))
    _write(place.config_file, rest)
    for section, table in held.items():
        for key, value in table.items():
            yield Held(kind="setting", name=f"[{section}] {key}", detail=f"= {value!r}")


def _without(text: str, held: dict[str, dict[str, Any]]) -> str:
    """Return the settings without those; the defaults where the file can't be edited."""
    document = cast("dict[str, Any]", tomlkit.parse(text))
    for section, table in held.items():
        for key in table:
            del document[section][key]
    rest = tomlkit.dumps(cast("Any", document))
    try:
        clean = not config.find_held(tomllib.loads(rest))
    except tomllib.TOMLDecodeError:
        clean = False
    return rest if clean else config.template()


def _git(place: Home) -> Iterator[Held]:
    """Reset what can make git run programs: settings, hooks and attributes. What it recorded stays."""
    for repository in sorted((place.meeseeks / ".history").glob("*.git")):
        settings = repository / "config"
        was = settings.read_text(encoding="utf-8", errors="replace") if settings.is_file() else _GIT_CONFIG
        for name in ("config", "config.worktree", "hooks", "info"):
            _clear(repository / name)
        _write(settings, _GIT_CONFIG)
        unusual = [line.strip() for line in was.splitlines() if _unusual(line)]
        if unusual:
            yield Held(kind="git settings", name=repository.stem, detail="; ".join(unusual))


def _unusual(line: str) -> bool:
    key = line.partition("=")[0].strip()
    return key not in {"", "[core]", "repositoryformatversion", "filemode", "bare", "logallrefupdates"}


def _hooks(place: Home) -> Iterator[Held]:
    listing = imported_hooks(place)
    _clear(listing)
    folders = sorted(file.parent for file in (place.state / "hooks").glob("*/HOOK.md"))
    if folders:
        _write(listing, "".join(f"{folder.name}\n" for folder in folders))
    for folder in folders:
        yield Held(kind="hook", name=folder.name, sha256=files.sha256(folder / "HOOK.md"))


def _skills(place: Home) -> Iterator[Held]:
    """What was enabled is a file with the hash of the skill."""
    pins = place.skills / ".enabled"
    for pin in sorted(pins.rglob("*")):
        if pin.is_file() and not pin.is_symlink():
            sha256 = pin.read_text(encoding="utf-8", errors="replace").strip()
            above = pin.relative_to(pins).parts[1:]
            yield Held(kind="skill", name="/".join(above), sha256=sha256)
    _clear(pins)


def _automations(place: Home) -> Iterator[Held]:
    path = place.ledger("runtime")
    connection = connect(path, "runtime", LedgersConfig(), writes=True)
    try:
        with translate_errors("runtime", path), connection:
            for row in automations.list_current(connection):
                if not _may_run(row):
                    continue
                automations.disable(connection, row.id, automations.IMPORTED)
                yield Held(
                    kind="automation", name=row.name, sha256=row.script_hash, detail=f"at {row.hook_point}"
                )
    finally:
        connection.close()
    files.sync_file(path)


def _may_run(row: automations.Automation) -> bool:
    """Code of installed packages is this machine's own; what is off and stays off needs no approval."""
    own = (row.script_path or "").startswith(_IN_PROCESS)
    waits = row.status == "disabled" and (row.disabled_reason or "").startswith(automations.NOT_YET)
    return not own and (row.status == "active" or waits)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    _clear(path)
    with files.new(path) as stream:
        stream.write(text.encode())
        files.sync(stream)
    path.chmod(PRIVATE_FILE)
