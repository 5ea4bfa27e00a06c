"""Settings that can be changed in the browser: what config.toml says, on which line, and what runs."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args, get_origin
from zoneinfo import available_timezones

from nexus import config, config_file
from nexus.automations import when
from nexus.channels import quiet
from nexus.config import Config
from nexus.config_file import Change, Value
from nexus.errors import ConfigError, UsageError
from nexus.home import Home
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


def read(text: str, path: Path, running: Config, environ: Mapping[str, str] = os.environ) -> File:
    """The settings as the text of the file at that path has them."""
    stored, next_ = config.parse(text, path, {}), config.parse(text, path, environ)
    groups = [
        Group(
            section=section,
            title=title,
            about=(type(part).__doc__ or "").partition("\n")[0],
            fields=tuple(
                _field(text, section, key, part, _part(next_, section), _part(running, section), environ)
                for key in keys
            ),
        )
        for section, title, part, keys in _parts(stored)
    ]
    return File(groups=tuple(groups), next=next_, seen=_digest(text))


def save(home: Home, section: str, given: Mapping[str, str], seen: str) -> list[str]:
    """Write what differs to the file, checked as a start would check it; returns the changed keys."""
    text = config.text(home.config_file)
    if _digest(text) != seen:
        raise UsageError("config.toml was changed meanwhile", hint="Reload the page, then change it again.")
    stored = config.parse(text, home.config_file, {})
    known = {name: (part, keys) for name, _, part, keys in _parts(stored)}
    if section not in known:
        raise UsageError(f"[{section:.40}] can't be changed here", hint="Edit config.toml.")
    part, keys = known[section]
    kinds = {each.name: each for each in fields(part)}
    changes = [
        Change(section=section, key=key, value=value)
        for key in keys
        if key in given and (value := _parsed(kinds[key].type, key, given[key])) != _plain(getattr(part, key))
    ]
    if not changes:
        return []
    written = config_file.changed(text, changes)
    _check(written, section, changes)
    config_file.write(home.config_file, written)
    return [change.key for change in changes]


def _parts(stored: Config) -> Iterator[tuple[str, str, Any, tuple[str, ...]]]:
    for name, (title, keys) in _SECTIONS.items():
        part = getattr(stored, name)
        if name == "channels":
            for channel, each in cast("Mapping[str, Any]", part).items():
                yield f"channels.{channel}", f"{title} {channel}", each, keys or ()
        else:
            yield name, title, part, keys or tuple(each.name for each in fields(part))


def _part(settings: Config, section: str) -> Any:
    table, _, name = section.partition(".")
    found = getattr(settings, table)
    return cast("Mapping[str, Any]", found).get(name) if name else found


def _field(
    text: str, section: str, key: str, part: Any, next_: Any, running: Any, environ: Mapping[str, str]
) -> Field:
    setting = next(each for each in fields(part) if each.name == key)
    kind, value = _kind(setting.type, key), getattr(part, key)
    wanted, runs = _shown(getattr(next_, key), kind), _shown(getattr(running, key), kind) if running else ""
    words = cast("tuple[str, ...]", get_args(setting.type)) if kind == "choice" else ()
    name = variable(section, key)
    return Field(
        key=key,
        label=_label(key),
        kind=kind,
        about=setting.metadata["doc"],
        value=_shown(value, kind),
        default=_shown(getattr(type(part)(), key), kind),
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


def _parsed(type_: Any, key: str, text: str) -> Value:
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


def _shown(value: Any, kind: Kind) -> str:
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
    channel = _part(made, section)
    quiet.parse_hours(channel.quiet_hours, channel.zone)


_CHECKS: Final[dict[tuple[str, str], Callable[[Config, str, Value], None]]] = {
    ("automations", "zone"): _check_zone,
    ("channels", "zone"): _check_zone,
    ("channels", "quiet_hours"): _check_quiet,
}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
