"""How the settings of a section are described, and read from a table or from the environment.

A section is a frozen dataclass whose fields are made by `setting`. What a field may hold: text, a number,
yes or no, one of some words, a list of texts, or a table of texts.
"""

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, Literal, cast, get_args, get_origin

from nexus import secrets
from nexus.errors import ConfigError

Value = str | int | float | bool | tuple[str, ...] | Mapping[str, str]


def setting(default: Value, doc: str, *, least: int = 0, secret: bool = False, held: bool = False) -> Any:
    """A setting with its default and one sentence. A `secret` one names where the value is kept.

    A `held` one runs, sends or opens something: one that an import brings waits for the owner's approval.
    """
    metadata = {"doc": doc, "least": least, "secret": secret, "held": held}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting, as the documentation and the template describe it."""

    section: str
    key: str
    kind: str
    default: Value
    doc: str
    secret: bool = False
    """Whether it names where a secret is kept."""

    @property
    def variable(self) -> str:
        return variable(self.section, self.key)


def describe_section(section: str, kind: type[Any]) -> list[Setting]:
    """Describe the settings of a section."""
    blank = kind()
    return [
        Setting(
            section=section,
            key=f.name,
            kind=_describe_type(f),
            default=getattr(blank, f.name),
            doc=f.metadata["doc"],
            secret=f.metadata["secret"],
        )
        for f in fields(kind)
    ]


# Settings whose URLs may name variables for their credentials, which are read when they are used.
_RESOLVED: Final = frozenset({"base_url", "database", "url"})


def variable(section: str, key: str) -> str:
    """Name the environment variable that overrides the file."""
    return f"NEXUS_{section}_{key}".replace(".", "_").upper()


def read(
    section: str, kind: type[Any], table: Mapping[str, Any], file: str, environ: Mapping[str, str]
) -> dict[str, Value]:
    """Read and check what the file and the environment set in a section."""
    known = {f.name: f for f in fields(kind)}
    refuse_unknown(table, known, f"setting in [{section}] of {file}")
    values: dict[str, Value] = {}
    for key, f in known.items():
        name = variable(section, key)
        if name in environ:
            # A variable is in no file and no backup, so a database may have its password there.
            if not environ[name].startswith("postgres"):
                refuse_credentials(environ[name], name, variables=key in _RESOLVED)
            values[key] = _check_value(f, _parse_text(f, environ[name], name), name)
        elif key in table:
            refuse_credentials(table[key], f"{file}: [{section}] {key}", variables=key in _RESOLVED)
            values[key] = _check_value(f, table[key], f"{file}: [{section}] {key}")
    return values


def names_in(section: str, kind: type[Any], environ: Mapping[str, str]) -> set[str]:
    """Find the tables that environment variables name, in a section of tables."""
    prefix = f"NEXUS_{section}_".upper()
    ends = [f"_{f.name}".upper() for f in fields(kind)]
    found: set[str] = set()
    for name in environ:
        end = max((end for end in ends if name.endswith(end)), key=len, default="")
        middle = name.removeprefix(prefix).removesuffix(end)
        if end and middle and name.startswith(prefix) and len(name) > len(prefix) + len(end):
            found.add(middle.lower())
    return found


def refuse_unknown(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse a key that is not known, and say which one may be meant."""
    names = list(known)
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            meant = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(names)}."
            raise ConfigError(f"`{key}` is not a {what}", hint=meant)


def toml(value: Value) -> str:
    """Format a value for config.toml."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        entries = ", ".join(f"{key} = {toml(item)}" for key, item in value.items())
        return f"{{ {entries} }}" if entries else "{}"
    return str(value)


def _parse_text(f: Field[Any], text: str, where: str) -> Any:
    if f.type is bool:
        lowered = text.strip().lower()
        if lowered not in {"true", "false", "1", "0"}:
            raise ConfigError(f"{where} must be true or false, not {text!r}")
        return lowered in {"true", "1"}
    if f.type in {int, float}:
        try:
            return cast("type[Any]", f.type)(text)
        except ValueError:
            raise ConfigError(f"{where} must be a number, not {text!r}") from None
    if get_origin(f.type) is tuple:
        return _split(text)
    if get_origin(f.type) is Mapping:
        return {name: value for name, _, value in (part.partition("=") for part in _split(text))}
    return text


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_value(f: Field[Any], value: Any, where: str) -> Value:
    if f.metadata["secret"]:
        # The value is not repeated in the message: it may be the secret itself.
        if not isinstance(value, str) or (value and not secrets.is_source(value)):
            raise _misplaced_secret_error(where)
        return value
    if get_origin(f.type) is Literal:
        allowed = get_args(f.type)
        if value not in allowed:
            raise ConfigError(f"{where} must be one of {', '.join(allowed)}, not {value!r}")
        return cast("str", value)
    if get_origin(f.type) is tuple:
        return _read_texts(value, where)
    if get_origin(f.type) is Mapping:
        return _read_table(value, where)
    if f.type is float and type(value) is int:
        value = float(value)
    if type(value) is not f.type:
        raise ConfigError(f"{where} must be of type {_describe_type(f)}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where} must be a finite number, not {value}")
    if isinstance(value, int | float) and not isinstance(value, bool) and value < f.metadata["least"]:
        raise ConfigError(f"{where} must be at least {f.metadata['least']}, not {value}")
    return value


def refuse_credentials(value: object, where: str, *, variables: bool = False) -> None:
    """Refuse a URL that holds a secret: addresses are shown, logged and backed up."""
    # The value is not repeated in the message.
    if not isinstance(value, str) or not secrets.in_url(value, variables=variables):
        return
    if value.startswith("postgres"):
        hint = (
            "Name a variable, as in `postgresql://nexus:env:NAME@host/nexus`, or use PGPASSWORD or ~/.pgpass."
        )
    else:
        hint = "Send it as a header: `Bearer env:NAME`."
    if variables and not value.startswith("postgres"):
        hint = "Name a variable, as in `?token=env:NAME`, or send it as a header: `Bearer env:NAME`."
    raise ConfigError(f"{where} must not contain a password or token", hint=hint)


def _misplaced_secret_error(where: str) -> ConfigError:
    return ConfigError(
        f"{where} must name where the secret is, not contain it",
        hint='For example "env:ANTHROPIC_API_KEY", "file:~/.secrets/key" or "keyring:nexus/anthropic".',
    )


def _read_texts(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
        raise ConfigError(f"{where} must be a list of texts, not {value!r}")
    return tuple(cast("list[str]", value))


def _read_table(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(v, str) for v in cast("dict[str, Any]", value).values()
    ):
        raise ConfigError(f"{where} must be a table of texts")
    table = cast("dict[str, str]", value)
    for name, text in table.items():
        if text and secrets.is_named(name) and not secrets.source_in(text):
            raise _misplaced_secret_error(f"{where}: {name}")
    return table


def _describe_type(f: Field[Any]) -> str:
    origin = get_origin(f.type)
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(f.type))
    if origin is tuple:
        return "list of texts"
    if origin is Mapping:
        return "table of texts"
    return cast("type[Any]", f.type).__name__
