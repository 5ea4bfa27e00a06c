"""Settings: change those that are safe in config.toml, test models, and see all that are in force."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args, get_origin
from zoneinfo import available_timezones

from starlette.requests import Request
from starlette.responses import Response

from nexus import config, config_file
from nexus.app import App
from nexus.automations import when
from nexus.broker.agent.knowledge import concerns, facts
from nexus.broker.agent.providers import PROVIDERS, key_found, offers
from nexus.broker.budgets import Budgets
from nexus.config import Config
from nexus.config_file import Change, Value
from nexus.errors import ConfigError, NexusError, UsageError
from nexus.gateway.dashboard.render import get, is_part, keys_of, page, post, read_form, redirect
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of
from nexus.gateway.views import settings
from nexus.home import Home
from nexus.ledgers.runtime import models
from nexus.ledgers.runtime.models import Capabilities
from nexus.roles import daily_brief
from nexus.settings import variable

Kind = Literal["text", "number", "seconds", "choice", "list"]
# What neither opens anything nor holds a secret. Whoever may write here is the owner.
_SECTIONS: Final[dict[str, tuple[str, tuple[str, ...] | None]]] = {
    "models": ("Models", None),
    "budgets": ("Budgets", None),
    "automations": (
        "Schedules and automations",
        ("zone", "missed", "timeout_ms", "async_timeout_ms", "circuit_errors", "circuit_cooldown_ms"),
    ),
    "followups": ("Follow-ups", None),
    "brief": ("Daily brief", None),
    "voice": ("Voice notes", None),
    "channels": ("Channel", ("answer", "quiet_hours", "zone")),
}
_LABELS: Final = {
    "manager": "You talk to",
    "worker": "Delegated work",
    "fast": "Small decisions",
    "writer": "Writes the memory",
    "consolidation": "Draws conclusions",
    "reflection": "Reflects",
    "request": "One message",
    "automation": "Each automation, a day",
    "guest": "Each other person, a day",
    "guests": "All other people, a day",
    "day": "This home, a day",
    "month": "This home, a month",
    "zone": "Time zone",
    "missed": "Missed schedules",
    "timeout": "Time for blocking automations",
    "async_timeout": "Time for background automations",
    "circuit_errors": "Errors before a pause",
    "circuit_cooldown": "Length of the pause",
    "answer": "Answers in groups",
    "quiet_hours": "Quiet hours",
    "enabled": "Recognize promises",
    "most_a_day": "Messages a day, at most",
    "at": "Time",
    "channel": "Channel",
    "thread": "Conversation",
}
_UNITS: Final = {"_usd": "US dollars", "_tokens": "tokens", "_ms": "seconds"}
_CHOICES: Final = {
    "once": "Run once, late",
    "skip": "Skip",
    "addressed": "When it is addressed",
    "always": "Always",
    "never": "Never",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One setting that can be changed."""

    key: str
    label: str
    """What people call it, with its unit."""
    kind: Kind
    about: str
    value: str
    """What the file says, or the default."""
    default: str
    line: int | None
    """Where it stands in the file; None where the file doesn't say it."""
    variable: str | None
    """The variable of the environment that wins over the file, where it is set."""
    running: str | None
    """What runs, where that is something else: it changes with the next start."""
    toml: str
    """How it is written in the file."""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """What can be chosen, with what it is called."""
    proposals: tuple[str, ...] = ()
    """What can be chosen besides typing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The settings of one table of config.toml that can be changed."""

    section: str
    title: str
    about: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """What can be changed of config.toml, and its state when that was read."""

    groups: tuple[Group, ...]
    next: Config
    """What the next start would run with."""
    seen: str

    @property
    def waits(self) -> bool:
        """Whether something was saved that does not run yet."""
        return any(field.running is not None for group in self.groups for field in group.fields)


def read_file(text: str, path: Path, running: Config, environ: Mapping[str, str] = os.environ) -> File:
    """Read the settings as the text of the file at that path has them."""
    stored, next_ = config.parse(text, path, {}), config.parse(text, path, environ)
    groups = [
        Group(
            section=section,
            title=title,
            about=(type(part).__doc__ or "").partition("\n")[0],
            fields=tuple(
                _make_field(
                    text,
                    section,
                    key,
                    part,
                    _find_part(next_, section),
                    _find_part(running, section),
                    environ,
                )
                for key in keys
            ),
        )
        for section, title, part, keys in _list_parts(stored)
    ]
    return File(groups=tuple(groups), next=next_, seen=_digest(text))


def save_section(home: Home, section: str, given: Mapping[str, str], seen: str) -> list[str]:
    """Write what differs to the file, checked as a start would check it; returns the changed keys."""
    text = config.text(home.config_file)
    if _digest(text) != seen:
        raise UsageError("config.toml was changed meanwhile", hint="Reload the page, then change it again.")
    stored = config.parse(text, home.config_file, {})
    known = {name: (part, keys) for name, _, part, keys in _list_parts(stored)}
    if section not in known:
        raise UsageError(f"[{section:.40}] can't be changed here", hint="Edit config.toml.")
    part, keys = known[section]
    kinds = {each.name: each for each in fields(part)}
    changes = [
        Change(section=section, key=key, value=value)
        for key in keys
        if key in given and (value := _parse(kinds[key].type, key, given[key])) != _plain(getattr(part, key))
    ]
    if not changes:
        return []
    written = config_file.apply_changes(text, changes)
    _check(written, section, changes)
    config_file.write(home.config_file, written)
    return [change.key for change in changes]


def _list_parts(stored: Config) -> Iterator[tuple[str, str, Any, tuple[str, ...]]]:
    for name, (title, keys) in _SECTIONS.items():
        part = getattr(stored, name)
        if name == "channels":
            for channel, each in cast("Mapping[str, Any]", part).items():
                yield f"channels.{channel}", f"{title} {channel}", each, keys or ()
        else:
            yield name, title, part, keys or tuple(each.name for each in fields(part))


def _find_part(settings: Config, section: str) -> Any:
    table, _, name = section.partition(".")
    found = getattr(settings, table)
    return cast("Mapping[str, Any]", found).get(name) if name else found


def _make_field(
    text: str, section: str, key: str, part: Any, next_: Any, running: Any, environ: Mapping[str, str]
) -> Field:
    setting = next(each for each in fields(part) if each.name == key)
    kind, value = _kind(setting.type, key), getattr(part, key)
    wanted, runs = _format(getattr(next_, key), kind), _format(getattr(running, key), kind) if running else ""
    words = cast("tuple[str, ...]", get_args(setting.type)) if kind == "choice" else ()
    name = variable(section, key)
    return Field(
        key=key,
        label=_label(key),
        kind=kind,
        about=setting.metadata["doc"],
        value=_format(value, kind),
        default=_format(getattr(type(part)(), key), kind),
        line=config_file.line_of(text, section, key),
        variable=name if name in environ else None,
        running=runs if wanted != runs else None,
        toml=str(Change(section=section, key=key, value=_plain(value))),
        choices={each: _CHOICES.get(each, each) for each in words},
        proposals=tuple(sorted(available_timezones())) if key == "zone" else (),
    )


def _label(key: str) -> str:
    unit = next((end for end in _UNITS if key.endswith(end)), "")
    label = _LABELS.get(key.removesuffix(unit), key)
    return f"{label}, in {_UNITS[unit]}" if unit else label


def _kind(type_: Any, key: str) -> Kind:
    if key.endswith("_ms"):
        return "seconds"
    if get_origin(type_) is Literal:
        return "choice"
    if get_origin(type_) is tuple:
        return "list"
    return "number" if type_ in {int, float} else "text"


def _parse(type_: Any, key: str, text: str) -> Value:
    kind = _kind(type_, key)
    if kind == "list":
        return [each.strip() for each in text.split(",") if each.strip()]
    if kind not in {"number", "seconds"}:
        return text.strip()
    number = text.strip().replace(",", "") or "0"
    try:
        return round(1_000 * float(number)) if kind == "seconds" else cast("type[Any]", type_)(number)
    except (ValueError, OverflowError):
        raise ConfigError(f"{_label(key)} must be a number, not {text.strip()!r:.40}") from None


def _plain(value: Any) -> Value:
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value


def _format(value: Any, kind: Kind) -> str:
    if kind == "seconds":
        return f"{value / 1_000:g}"
    if isinstance(value, tuple):
        return ", ".join(cast("tuple[str, ...]", value))
    if isinstance(value, float):
        return f"{value:,.2f}".removesuffix(".00")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _check(written: str, section: str, changes: list[Change]) -> None:
    """Refuse what could not be started with, by the same rules."""
    made = config.parse(written, Path("config.toml"), {})
    for change in changes:
        if check := _CHECKS.get((section.partition(".")[0], change.key)):
            check(made, section, change.value)
        elif section == "models":
            _check_models(made, cast("list[str]", change.value))


def _check_models(made: Config, names: list[str]) -> None:
    for name in names:
        provider, _, model = name.partition("/")
        if not model or provider not in made.providers:
            raise ConfigError(
                f"`{name:.80}` is not a model of a known provider",
                hint=f"Write it as `provider/model`. Providers: {', '.join(made.providers)}.",
            )


def _check_zone(made: Config, section: str, value: Value) -> None:
    if value:
        when.check_zone(str(value))


def _check_quiet(made: Config, section: str, value: Value) -> None:
    channel = _find_part(made, section)
    when.parse_hours(channel.quiet_hours, channel.zone)


def _check_followups(made: Config, section: str, value: Value) -> None:
    when.parse_hours(made.followups.quiet_hours, made.automations.zone)


def _check_brief(made: Config, section: str, value: Value) -> None:
    daily_brief.parse_time(made.brief.at)


_CHECKS: Final[dict[tuple[str, str], Callable[[Config, str, Value], None]]] = {
    ("automations", "zone"): _check_zone,
    ("channels", "zone"): _check_zone,
    ("channels", "quiet_hours"): _check_quiet,
    ("followups", "quiet_hours"): _check_followups,
    ("brief", "at"): _check_brief,
}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def show_settings(
    request: Request,
    app: App,
    *,
    error: NexusError | None = None,
    section: str = "",
    given: dict[str, str] | None = None,
) -> Response:
    """Show the settings, with what was typed if it was refused. Secrets are not told."""
    path, text, file, problem = app.home.config_file, "", None, None
    try:
        text = await asyncio.to_thread(config.text, path)
        file = await asyncio.to_thread(read_file, text, path, app.config)
    except ConfigError as broken:
        problem = broken
    known = await app.ledgers.runtime.read(models.every)

    def line(name: str, key: str) -> int | None:
        return config_file.line_of(text, name, key)

    return await page(
        request,
        "settings.html",
        status_of(error) if error else 200,
        active="settings",
        editable=file,
        problem=problem,
        error=error,
        refused=section,
        given=given or {},
        used=[
            {"name": name, "roles": roles, "known": _describe_model(known.get(name))}
            for name, roles in (file.next if file else app.config).models.roles.items()
        ],
        sections=settings.list_sections(app.config),
        restarts=served_by(request).restart is not None,
        known_models=await asyncio.to_thread(_list_models, file.next if file else app.config),
        line=line,
        home=str(app.home.root),
        file=str(path),
        problems=app.automations.problems,
        browsers=len(keys_of(request).browsers),
    )


async def save_settings(request: Request, app: App) -> Response:
    """Write the settings of one section to the file."""
    section, given = request.path_params["section"], await read_form(request)
    values = {name: given.text(name) for name in given.names if name != "seen"}
    try:
        changed = await asyncio.to_thread(save_section, app.home, section, values, given.text("seen"))
    except (ConfigError, UsageError, NexusError) as error:
        return await show_settings(request, app, error=error, section=section, given=values)
    return redirect(f"/settings?saved={len(changed)}#{section}")


async def restart(request: Request, app: App) -> Response:
    """Open the home again with the settings that were saved."""
    reopen = served_by(request).restart
    if reopen is None:
        raise UsageError("This home is restarted by its host")
    reopen()
    return redirect("/settings")


async def test_model(request: Request, app: App) -> Response:
    """Ask a model of the settings a question, a tool call and a JSON answer."""
    # Imported here, because the providers' libraries take seconds.
    from nexus.broker.agent import trial

    name = (await read_form(request)).text("name")
    stored = await asyncio.to_thread(config.load, app.home.config_file)
    if name not in stored.models.roles:
        raise UsageError(f"No role uses `{name:.80}`", hint="Save it first.")
    told: list[str] = []
    error: NexusError | None = None
    try:
        async with app.testing_models:
            account = Budgets(app.ledgers, app.config.budgets)
            done = await trial.try_model(stored, name, account=account)
        await trial.keep(app.ledgers.runtime, done)
        told = [f"answered in {done.duration_ms / 1000:.1f} s", *facts(done.known), *concerns(done.known)]
    except NexusError as failure:
        error = failure
    if not is_part(request):
        done = redirect("/settings#models")
        return done if error is None else await show_settings(request, app, error=error)
    return await page(request, "part_model.html", told=told, error=error)


def _list_models(config: Config) -> list[str]:
    """List the models of the providers that can be used now."""
    names = list(config.models.roles)
    for name, known in config.providers.items():
        if name in PROVIDERS and not PROVIDERS[name].is_local and key_found(known):
            names += [f"{name}/{each.name}" for each in offers(config, PROVIDERS[name], known)]
    return list(dict.fromkeys(names))


def _describe_model(known: Capabilities | None) -> dict[str, Any]:
    found = known or Capabilities()
    return {"facts": list(facts(found)), "tested_at": found.tested_at}


ROUTES = (
    get("/settings", show_settings),
    post("/settings/test", test_model),
    post("/settings/restart", restart),
    post("/settings/{section}", save_settings),
)
