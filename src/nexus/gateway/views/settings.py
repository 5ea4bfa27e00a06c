"""The settings in force, for reading. Secrets are not among them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from nexus.config import Config
from nexus.settings import describe_section

# People write secrets where none belong: into an address, into the arguments of a program.
_MAY_HOLD_SECRETS: Final = frozenset({"args", "env", "headers"})
_SCHEME: Final = "://"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting: what it is, what it is about, and whether it is the default."""

    name: str
    value: str
    about: str
    is_default: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The settings of one table of config.toml."""

    name: str
    about: str
    settings: tuple[Setting, ...]


def list_sections(config: Config) -> tuple[Section, ...]:
    """List all settings. Secrets are only reported as set or not set."""
    found: list[Section] = []
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Mapping):
            named = cast("Mapping[str, Any]", value)
            found += [_make_section(f"{field.name}.{name}", each) for name, each in named.items()]
        else:
            found.append(_make_section(field.name, value))
    return tuple(found)


def _make_section(name: str, value: Any) -> Section:
    kind = cast("type[Any]", type(value))
    settings = [
        Setting(
            name=entry.key,
            value=_format(entry.key, getattr(value, entry.key), secret=entry.secret),
            about=entry.doc,
            is_default=getattr(value, entry.key) == entry.default,
        )
        for entry in describe_section(name, kind)
    ]
    return Section(name=name, about=kind.__doc__ or "", settings=tuple(settings))


def _format(name: str, value: Any, *, secret: bool) -> str:
    if secret or name in _MAY_HOLD_SECRETS:
        return "set" if value else "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(_format_text(name, str(each)) for each in cast("tuple[Any, ...]", value)) or "none"
    return "not set" if value == "" else _format_text(name, str(value))


def _format_text(name: str, value: str) -> str:
    """A value as it is, unless it is an address, wherever one is written."""
    if _SCHEME in value:
        return _strip_credentials(value)
    is_address = name == "database" or name.endswith("url")
    return "set" if is_address and any(mark in value for mark in "@=?") else value


def _strip_credentials(address: str) -> str:
    """Scheme, host, port and path: a name, a password or a query may be secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "set"
    # A password with a `/`, `?` or `#` in it is cut in the wrong place.
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)) or not parts.netloc:
        return "set"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
