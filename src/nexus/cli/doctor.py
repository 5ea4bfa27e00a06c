"""`nexus doctor`: diagnose and repair problems of a home. Each finding says what to do."""

import asyncio
import os
import platform
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click

from nexus import __version__, config, extras
from nexus.automations.scripts.script import IN_PROCESS
from nexus.broker.agent.roles import models_of
from nexus.broker.tools import sandbox
from nexus.cli import ledger_checks, model_checks
from nexus.cli.ledger_checks import Finding
from nexus.cli.place import format_size, json_option, locate_home, print_json, printable
from nexus.config import CalendarConfig, Config, GatewayConfig, McpConfig, MemoryConfig
from nexus.errors import ConfigError, GatewayError, LedgerError, NexusError, SchemaError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home
from nexus.ledgers import attach, health, sql
from nexus.ledgers.connection import refuse_unknown
from nexus.ledgers.runtime import invocations
from nexus.pipeline.incoming import directory
from nexus.roles.bundled import switched_off
from nexus.roles.memory_writer import describe_cost
from nexus.serving import serving
from nexus.skills import folder
from nexus.skills.catalog import Catalog
from nexus.text import pluralize

_MOST_FIXES = 100
_LOOK_S = 2.0
_LITTLE_SPACE_BYTES = 1024**3
_NO_SPACE_BYTES = 100 * 1024**2
_OLDEST_SQLITE = (3, 37)
_NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs"})
_SIGNS = {
    "ok": click.style("ok     ", fg="green"),
    "off": click.style("off    ", dim=True),
    "warning": click.style("warning", fg="yellow"),
    "error": click.style("error  ", fg="red"),
}


@click.command()
@click.option("--fix", is_flag=True, help="Repair what needs no decision.")
@click.option(
    "--deep",
    is_flag=True,
    help="Also check every page, and that no work is lost, stuck or duplicated. May take minutes.",
)
@click.option(
    "--create-empty",
    is_flag=True,
    help="With --fix: replace a missing or damaged ledger without a known backup by an empty one. "
    "What was in it is lost.",
)
@json_option
@click.pass_context
def doctor(ctx: click.Context, fix: bool, deep: bool, create_empty: bool, as_json: bool) -> None:
    """Diagnose and repair problems with files, permissions, databases, models and programs.

    A ledger that is missing or damaged is restored from the newest backup that was made of this home here.
    Each finding says what to do. The exit code is 0 if there are no errors (warnings are fine).
    """
    home = locate_home(ctx)
    findings = list(examine(home, thorough=deep, creates_empty=create_empty))
    fixed: list[Finding] = []
    # A repair, such as access to a folder, may uncover further problems.
    while fix and len(fixed) < _MOST_FIXES and (done := _fix_findings(findings)):
        fixed += done
        findings = list(examine(home, thorough=deep, creates_empty=create_empty))
    healthy = all(finding.level != "error" for finding in findings)
    if as_json:
        print_json(
            {
                "home": str(home.root),
                "ok": healthy,
                "fixed": [_describe_fix(f) for f in fixed],
                "findings": [_finding_document(f) for f in findings],
            }
        )
    else:
        _print_findings(findings, fixed)
    ctx.exit(0 if healthy else 1)


def _fix_findings(findings: list[Finding]) -> list[Finding]:
    """Repair what can be repaired, and return it. A failed repair is reported and stays a finding."""
    fixed: list[Finding] = []
    for finding in findings:
        if finding.fix is None or finding.level == "ok":
            continue
        try:
            finding.fix()
        except (NexusError, OSError) as error:
            click.echo(f"nexus: Could not fix: {finding.message}\n  {error}", err=True)
        else:
            fixed.append(finding)
    return fixed


def _describe_fix(finding: Finding) -> str:
    return f"{finding.message}; {finding.fixed}" if finding.fixed else finding.message


def _finding_document(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "level": finding.level,
        "message": finding.message,
        "remedy": finding.remedy,
        "fixable": finding.fix is not None,
    }


def _print_findings(findings: list[Finding], fixed: list[Finding]) -> None:
    for finding in fixed:
        click.echo(f"{click.style('fixed  ', fg='cyan')}  {finding.check:<12} {_describe_fix(finding)}")
    for finding in findings:
        click.echo(f"{_SIGNS[finding.level]}  {finding.check:<12} {finding.message}")
        if finding.remedy:
            click.echo(f"{'':24}{finding.remedy}")
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    if errors or warnings:
        click.echo(f"\n{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}.")
    else:
        click.echo("\nNo problems found.")


def examine(home: Home, *, thorough: bool, creates_empty: bool = False) -> Iterator[Finding]:
    """Yield every finding about a home, in the order in which a person would look."""
    yield from _check_versions()
    yield from _check_sandbox()
    inaccessible = list(_check_access(home))
    if inaccessible:
        yield from inaccessible
        return
    if not home.exists:
        yield Finding(
            check="home",
            level="error",
            message=f"No home at {home.root}",
            remedy="Run `nexus init`.",
        )
        return
    try:
        refuse_unknown(home.data)
    except SchemaError as error:
        # No repair for another version's home: it stays as it is.
        yield Finding(check="ledgers", level="error", message=error.message, remedy=error.hint)
        return
    yield from _check_layout(home)
    yield from _check_permissions(home)
    yield from _check_config(home)
    yield from ledger_checks.check_ledgers(home, thorough=thorough, creates_empty=creates_empty)
    yield from model_checks.check_automations(home)
    yield from _check_engine(home, thorough=thorough)
    yield from _check_failed_embeddings(home)
    yield from _check_failed_invocations(home)
    yield from _check_attach_files(home)
    yield from _check_leftovers(home)
    yield from _check_sockets(home)
    yield from _check_skills(home)
    yield from _check_disk(home)
    yield from _check_filesystem(home)


def _check_versions() -> Iterator[Finding]:
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
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - an argument list, no shell
    number = version.split(" ", 1)[0]
    if tuple(int(part) for part in number.split(".")[:2] if part.isdigit()) < _OLDEST_SQLITE:
        yield Finding(
            check="programs",
            level="warning",
            message=f"sqlite3 {number} is too old for these databases",
            remedy="Install version 3.37 or later.",
        )
    else:
        yield Finding(check="programs", level="ok", message=f"sqlite3 {number}")


def _check_sandbox() -> Iterator[Finding]:
    trouble = asyncio.run(sandbox.availability())
    if trouble is None:
        yield Finding(check="sandbox", level="ok", message="Sandbox available")
    else:
        yield Finding(check="sandbox", level="warning", message=trouble.reason, remedy=trouble.hint)


def _check_layout(home: Home) -> Iterator[Finding]:
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


def _check_config(home: Home) -> Iterator[Finding]:
    try:
        loaded = config.load(home.config_file)
    except ConfigError as error:
        yield Finding(check="config", level="error", message=error.message, remedy=error.hint)
    else:
        yield Finding(check="config", level="ok", message="config.toml is valid")
        yield from _check_models(loaded)
        yield from check_grants(home, loaded)
        yield from _check_secret_files(loaded)
        yield from _check_reach(home, loaded)


def _check_voice(loaded: config.Config) -> Iterator[Finding]:
    from nexus import voice

    problem = voice.find_problem(loaded)
    if problem is None and loaded.voice.model:
        yield Finding(check="voice", level="ok", message=f"Voice notes: {loaded.voice.model}")
    elif problem is not None:
        # Who set a model wants it. The default is there for whoever installs its package.
        level = "off" if loaded.voice == config.VoiceConfig() else "warning"
        message = f"Voice notes are not transcribed: {problem.message}"
        yield Finding(check="voice", level=level, message=message, remedy=problem.hint)


def _check_models(loaded: config.Config) -> Iterator[Finding]:
    for problem in model_checks.find_unlimited(loaded):
        yield Finding(check="budgets", level="warning", message=problem.message, remedy=problem.hint)
    missing = list(model_checks.find_problems(loaded))
    for problem in missing:
        yield Finding(check="models", level="warning", message=problem.message, remedy=problem.hint)
    try:
        managers = models_of(loaded.models, "manager")
    except ConfigError as error:
        # A home without an agent is a whole home: its ledgers and its memory can be used.
        yield Finding(check="models", level="off", message="No model configured", remedy=error.hint)
    else:
        if not missing:
            yield Finding(check="models", level="ok", message=f"Manager: {', then '.join(managers)}")
        if cost := describe_cost(loaded):
            yield Finding(check="memory", level="ok", message=cost)
        else:
            yield Finding(
                check="memory",
                level="off",
                message="The memory writer is off: nothing is learned from conversations",
                remedy='Set `writer = "manager"` or another model in [models] in config.toml to turn it on.',
            )
        yield from _check_voice(loaded)
        for path, reason in switched_off(loaded).items():
            name = path.removeprefix(IN_PROCESS)
            yield Finding(check="automations", level="off", message=f"{name} is off: {reason}")


def _check_engine(home: Home, *, thorough: bool) -> Iterator[Finding]:
    try:
        settings = config.load(home.config_file).engine
    except ConfigError:
        return  # reported above
    is_used = bool(settings.database) or home.engine_file.is_file()
    if not is_used and not thorough:
        return
    # Imported here, because it brings the whole engine with it.
    from nexus.cli import engine_checks
    from nexus.engine.settings import Settings

    try:
        of_home = Settings.of_home(home, settings)
    except ConfigError as error:
        yield Finding(check="engine", level="error", message=error.message, remedy=error.hint)
    else:
        if is_used:
            yield from engine_checks.check_engine(home, of_home, thorough=thorough)
        if thorough:
            yield from engine_checks.check_invariants(home, of_home)


def _check_failed_embeddings(home: Home) -> Iterator[Finding]:
    try:
        with health.open_to_read(home.ledger("embeddings"), "embeddings") as connection:
            failed = connection.execute(sql.queries("embeddings")["failed"]).get
    except LedgerError:
        return  # reported above
    if failed:
        yield Finding(
            check="memory",
            level="warning",
            message=f"{pluralize(failed, 'text')} could not be embedded, and can be found by words only",
            remedy="`nexus logs` says why. To try again, run `nexus memory embeddings --check`.",
        )


def _check_failed_invocations(home: Home) -> Iterator[Finding]:
    try:
        with health.open_to_read(home.ledger("runtime"), "runtime") as connection:
            dead = invocations.count_dead(connection)
    except LedgerError:
        return  # reported above
    if dead:
        yield Finding(
            check="automations",
            level="warning",
            message=f"{pluralize(dead, 'async invocation')} failed every attempt",
            remedy="List them with `nexus automations retry`; add `--all` to retry, or `--all --dismiss`.",
        )


def _check_attach_files(home: Home) -> Iterator[Finding]:
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


def _check_leftovers(home: Home) -> Iterator[Finding]:
    for path in (*home.root.glob(".*.new_*"), *home.data.glob(".*.new_*")):
        yield Finding(
            check="leftovers",
            level="warning",
            message=f"{path.name} was left by an interrupted `nexus init`",
            remedy="Run `nexus doctor --fix` to delete it.",
            fix=path.unlink,
        )


def _check_sockets(home: Home) -> Iterator[Finding]:
    for path in sorted(home.run.rglob("*.sock")) if serving(home) is None else ():
        yield Finding(
            check="leftovers",
            level="warning",
            message=f"{path.relative_to(home.root)} was left by a killed process",
            remedy="Run `nexus doctor --fix` to delete it, or `nexus up` to replace it.",
            fix=lambda path=path: path.unlink(missing_ok=True),
        )


def _check_skills(home: Home) -> Iterator[Finding]:
    for path in folder.find_new_versions(home.meeseeks):
        edited = path.with_name(path.name.removesuffix(folder.NEW))
        yield Finding(
            check="skills",
            level="warning",
            message=f"{edited.relative_to(home.meeseeks)} was edited, and a new version is available",
            remedy=f"Compare it with {path}, merge the changes, and delete that file.",
        )
    for entry in Catalog(home).list_entries():
        if entry.state in {"changed", "broken"}:
            name = printable(str(entry.reference))
            yield Finding(
                check="skills",
                level="warning",
                message=f"The skill {name} changed after it was enabled, and is off"
                if entry.state == "changed"
                else f"The skill {name} is broken. {printable(entry.problem)}",
                remedy=f"Review it with `nexus skills enable {name}`, or `nexus skills remove {name}`.",
            )


def _check_disk(home: Home) -> Iterator[Finding]:
    free = shutil.disk_usage(home.root).free
    used = sum(path.stat().st_size for path in home.data.iterdir() if path.is_file())
    message = f"{format_size(free)} free, {format_size(used)} used by the ledgers"
    if free < _NO_SPACE_BYTES:
        remedy = "Free disk space now: writes will soon fail."
        yield Finding(check="disk", level="error", message=message, remedy=remedy)
    elif free < max(_LITTLE_SPACE_BYTES, used):
        remedy = "Free disk space: a backup or a forget needs as much again as the ledgers use."
        yield Finding(check="disk", level="warning", message=message, remedy=remedy)
    else:
        yield Finding(check="disk", level="ok", message=message)


def _check_filesystem(home: Home) -> Iterator[Finding]:
    kind = _filesystem_of(home.data)
    if kind in _NETWORK_FILESYSTEMS:
        yield Finding(
            check="filesystem",
            level="error",
            message=f"The home is on a network file system ({kind}), where SQLite's locks don't work",
            remedy="Move it to a local disk: `nexus backup`, then `nexus --home LOCAL restore`.",
        )


def _filesystem_of(path: Path) -> str:
    """Return the kind of file system that holds a path; empty if the system doesn't tell."""
    try:
        mounts = [line.split(" ") for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    holding = [(mount[1], mount[2]) for mount in mounts if path.is_relative_to(mount[1])]
    return max(holding, key=lambda pair: len(pair[0]))[1] if holding else ""


# ---- py


def _check_access(home: Home) -> Iterator[Finding]:
    """Find the first folder that you can't enter or write: nothing in it can be checked."""
    for path in (home.root, home.data, home.state, home.logs, home.run):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Finding(
                check="permissions",
                level="error",
                message=f"{path} cannot be reached: {error.strerror}",
                remedy=f"Check its parent folders: `namei -l '{path}'`.",
            )
            return
        if stat.S_ISDIR(mode) and mode & PRIVATE_DIRECTORY != PRIVATE_DIRECTORY:
            yield _no_access(path, PRIVATE_DIRECTORY)
            return


def _check_permissions(home: Home) -> Iterator[Finding]:
    """Find what other users can access, what you can't, and what belongs to somebody else."""
    wanted = list(_private_paths(home))
    foreign = [path for path, _ in wanted if path.stat().st_uid != os.getuid()]
    wrong = [finding for path, mode in wanted for finding in _check_mode(path, mode)]
    yield from wrong
    for path in foreign:
        yield Finding(
            check="permissions",
            level="warning",
            message=f"{path} belongs to another user (uid {path.stat().st_uid})",
            remedy=f"Run `sudo chown -R $(id -u) '{home.root}'`.",
        )
    if not wrong and not foreign:
        yield Finding(check="permissions", level="ok", message="Only you have access")


def check_grants(home: Home, loaded: Config) -> Iterator[Finding]:
    """Find directories granted to agents that contain the home."""
    root = home.root.resolve()
    for text in loaded.tools.directories:
        try:
            place = Path(directory(text).path).resolve()
        except ConfigError as error:
            yield Finding(check="grants", level="error", message=error.message, remedy=error.hint)
            continue
        if root.is_relative_to(place):
            yield Finding(
                check="grants",
                level="warning",
                message=f"`{text}` in [tools] directories contains the home; agents see {root} as empty",
                remedy="Grant only the directories in it that agents need.",
            )


def _check_secret_files(loaded: Config) -> Iterator[Finding]:
    """Check the modes of files outside the home that hold keys."""
    sources = {
        source for each in loaded.providers.values() for source in (each.api_key, each.auth_token) if source
    }
    for source in sorted(sources):
        kind, _, place = source.partition(":")
        path = Path(place).expanduser()
        if kind == "file" and path.is_file() and path.stat().st_uid == os.getuid():
            yield from _check_mode(path, PRIVATE_FILE)


def _private_paths(home: Home) -> Iterator[tuple[Path, int]]:
    files = [home.config_file, home.lock_file, home.token_file, *home.data.iterdir()]
    folders = [*home.directories, home.secrets]
    yield from ((path, PRIVATE_DIRECTORY) for path in folders if path.is_dir())
    yield from ((path, PRIVATE_FILE) for path in files if path.is_file())


def _check_mode(path: Path, wanted: int) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & wanted != wanted:
        yield _no_access(path, wanted)
    elif mode & 0o077:
        yield Finding(
            check="permissions",
            level="error",
            message=f"{path} is accessible to other users ({stat.filemode(path.stat().st_mode)})",
            remedy=f"Run `nexus doctor --fix` or `chmod {wanted:o} '{path}'`.",
            fix=lambda: path.chmod(wanted),
        )


def _no_access(path: Path, wanted: int) -> Finding:
    return Finding(
        check="permissions",
        level="error",
        message=f"No read and write access to {path} ({stat.filemode(path.stat().st_mode)})",
        remedy=f"Run `nexus doctor --fix` or `chmod {wanted:o} '{path}'`.",
        fix=lambda: path.chmod(wanted),
    )


def _check_reach(home: Home, loaded: Config) -> Iterator[Finding]:
    """Find whatever isn't where the settings say: models, servers, programs, ports."""
    yield from _check_embedding(loaded.memory)
    yield from _check_model_servers(loaded)
    for name, server in loaded.mcp.items():
        yield from _check_mcp_server(name, server)
    for name, settings in loaded.calendar.items():
        yield from _check_calendar(name, settings)
    yield from _check_port(home, loaded.gateway)


def _check_embedding(settings: MemoryConfig) -> Iterator[Finding]:
    # Imported here, because it brings numpy with it.
    from nexus.memory.embedding import choose_model, find

    path = Path(settings.embedding_model_path).expanduser() if settings.embedding_model_path else None
    if path is not None and not path.exists():
        yield Finding(
            check="memory",
            level="warning",
            message=f"Embedding model not found at {path}",
            remedy="Fix or clear `embedding_model_path` in [memory] in config.toml.",
        )
    try:
        found = find(choose_model(settings), path=path)
    except NexusError as error:
        # Memory works without it, by words alone, so an install that leaves it out is whole.
        level = "error" if extras.is_installed("embedding") else "warning"
        yield Finding(check="memory", level=level, message=error.message, remedy=error.hint)
    else:
        message = f"Embedding model: {found.model.name}"
        yield Finding(check="memory", level="ok", message=message)


def _check_model_servers(loaded: Config) -> Iterator[Finding]:
    """Check the owner's own servers that a role uses. Public providers are left alone."""
    for provider in sorted(
        {name.partition("/")[0] for name in loaded.models.roles} & loaded.providers.keys()
    ):
        known = loaded.providers[provider]
        # A built-in model has no server until it is asked something.
        url = known.base_url if known.kind != "builtin" else ""
        trouble = _connection_error(url) if url else ""
        if trouble:
            message = f"Can't reach the model server {provider} at {url}: {trouble}"
            remedy = f"Start it, or fix `base_url` in [providers.{provider}] in config.toml."
            yield Finding(check="servers", level="warning", message=message, remedy=remedy)


def _check_mcp_server(name: str, server: McpConfig) -> Iterator[Finding]:
    if server.url:
        trouble = _connection_error(server.url)
        if trouble:
            message = f"Can't reach the MCP server `{name}` at {server.url}: {trouble}"
            remedy = f"Start it, or fix `url` in [mcp.{name}] in config.toml."
            yield Finding(check="mcp", level="warning", message=message, remedy=remedy)
    elif shutil.which(str(Path(server.command).expanduser())) is None:
        message = f"MCP server `{name}`: program not found: {server.command or 'none is named'}"
        remedy = f"Install it, or fix `command` in [mcp.{name}] in config.toml."
        yield Finding(check="mcp", level="warning", message=message, remedy=remedy)


def _check_calendar(name: str, settings: CalendarConfig) -> Iterator[Finding]:
    """Log in to a calendar's server, or read its file."""
    from nexus.roles.calendar.server import check_login

    try:
        found = asyncio.run(check_login(settings))
    except NexusError as error:
        message = f"Calendar {name}: {error.message}"
        yield Finding(check="calendar", level="warning", message=message, remedy=error.hint)
    else:
        yield Finding(check="calendar", level="ok", message=f"Calendar {name}: {', '.join(found)}")


def _check_port(home: Home, settings: GatewayConfig) -> Iterator[Finding]:
    """Check that `nexus up` can listen. Without a port it takes a free one; a served home has its own."""
    if not settings.port or serving(home) is not None:
        return
    # Imported here, because it brings the web server with it.
    from nexus.gateway.listener import bind_socket

    try:
        bind_socket(settings.host, settings.port).close()
    except GatewayError as error:
        yield Finding(check="gateway", level="warning", message=error.message, remedy=error.hint)


def _connection_error(url: str) -> str:
    """Return why a URL can't be reached, in the system's words; empty if it can."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=_LOOK_S).close()
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return ""
