"""One frozen Config, read once, from config.toml and NEXUS_* variables.

Every setting is a field below with its default, its unit in its name and one sentence; the commented
config.toml that `nexus init` writes and the settings page of the docs are generated from them.
A variable wins over the file: `[ledgers] busy_timeout_ms` is `NEXUS_LEDGERS_BUSY_TIMEOUT_MS`.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

from nexus.errors import ConfigError

Value = str | int | float | bool


def _setting(default: Value, doc: str, *, least: int = 0) -> Any:
    return field(default=default, metadata={"doc": doc, "least": least})


@dataclass(frozen=True, kw_only=True)
class LedgersConfig:
    """The six SQLite databases."""

    busy_timeout_ms: int = _setting(
        30_000, "How long a write waits for another process that is writing before it gives up."
    )
    synchronous: Literal["full", "normal"] = _setting(
        "full",
        "`full`: an acknowledged write survives a power cut. `normal`: it survives a crash of the "
        "program, and the last moments before a power cut may be lost. The embeddings ledger is "
        "always `normal`, because it can be rebuilt.",
    )
    cache_kib: int = _setting(16_384, "The most memory that one connection may use to keep pages.")
    readers: int = _setting(4, "The most connections for reading that one database keeps open.", least=1)


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The durable engine: queues, jobs and schedules."""

    database: str = _setting(
        "", "The url of a Postgres database that several hosts share. Empty: `data/engine.db` in the home."
    )
    host_limit: int = _setting(64, "The most executions that one process runs at a time.", least=1)
    lease_ms: int = _setting(
        10_000, "How long a process that has stopped answering keeps its work.", least=1_000
    )
    synchronous: Literal["full", "normal"] = _setting(
        "full",
        "`full`: acknowledged work survives a power cut. `normal`: it survives a crash of the program, and "
        "the last moments before a power cut may be lost.",
    )
    retention_days: int = _setting(30, "How long finished work stays visible. Dead letters stay.")


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one home."""

    ledgers: LedgersConfig = LedgersConfig()
    engine: EngineConfig = EngineConfig()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting, as the documentation and the template describe it."""

    section: str
    key: str
    kind: str
    default: Value
    doc: str

    @property
    def variable(self) -> str:
        return _variable(self.section, self.key)


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration of a home: the file where there is one, then the environment."""
    tables = _read(path)
    sections = {f.name: f for f in fields(Config)}
    _refuse_unknown(tables.keys(), sections.keys(), f"section in {path}")
    built: dict[str, Any] = {}
    for name, section_field in sections.items():
        section_type = cast("type[Any]", section_field.type)
        table = tables.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: [{name}] must be a section, not a value")
        built[name] = _section(name, section_type, cast("dict[str, Any]", table), path, environ)
    return Config(**built)


def settings() -> Iterator[tuple[str, str, list[Setting]]]:
    """Every section: its name, what it is about, its settings."""
    for section_field in fields(Config):
        section_type = cast("type[Any]", section_field.type)
        yield (
            section_field.name,
            section_type.__doc__ or "",
            [
                Setting(
                    section=section_field.name,
                    key=f.name,
                    kind=_kind(f),
                    default=cast("Value", f.default),
                    doc=f.metadata["doc"],
                )
                for f in fields(section_type)
            ],
        )


def template() -> str:
    """The commented config.toml of a new home: every setting, at its default, switched off by `#`."""
    lines = [
        "# Nexus settings. Every line that starts with `#` shows a default; remove the `#` to change it.",
        "# A variable of the environment wins over this file: NEXUS_<SECTION>_<KEY>.",
    ]
    for section, about, entries in settings():
        lines += ["", f"# {about}", f"[{section}]"]
        for entry in entries:
            lines += [f"# {part}" for part in _wrap(entry.doc)]
            lines += [f"# {entry.key} = {_toml(entry.default)}"]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}",
            hint="Correct that line, or delete the file to use the defaults.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", hint="Run `nexus doctor --fix`."
        ) from error


def _section(
    name: str, kind: type[Any], table: dict[str, Any], path: Path, environ: Mapping[str, str]
) -> Any:
    known = {f.name: f for f in fields(kind)}
    _refuse_unknown(table.keys(), known.keys(), f"setting in [{name}] of {path}")
    values: dict[str, Value] = {}
    for key, f in known.items():
        variable = _variable(name, key)
        if variable in environ:
            values[key] = _checked(f, _from_text(f, environ[variable], variable), variable)
        elif key in table:
            values[key] = _checked(f, table[key], f"{path}: [{name}] {key}")
    return kind(**values)


def _refuse_unknown(given: Any, known: Any, what: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, list(known), n=1)
            meant = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(known)}."
            raise ConfigError(f"`{key}` is not a {what}", hint=meant)


def _from_text(f: Field[Any], text: str, where: str) -> Value:
    if f.type is bool:
        lowered = text.strip().lower()
        if lowered not in {"true", "false", "1", "0"}:
            raise ConfigError(f"{where} must be true or false, not {text!r}")
        return lowered in {"true", "1"}
    if f.type in {int, float}:
        try:
            return f.type(text)
        except ValueError:
            raise ConfigError(f"{where} must be a number, not {text!r}") from None
    return text


def _checked(f: Field[Any], value: Any, where: str) -> Value:
    if get_origin(f.type) is Literal:
        allowed = get_args(f.type)
        if value not in allowed:
            raise ConfigError(f"{where} must be one of {', '.join(allowed)}, not {value!r}")
    elif type(value) is not f.type:
        raise ConfigError(f"{where} must be of type {_kind(f)}, not {value!r}")
    elif isinstance(value, int) and not isinstance(value, bool) and value < f.metadata["least"]:
        raise ConfigError(f"{where} must be at least {f.metadata['least']}, and is {value}")
    return value


def _kind(f: Field[Any]) -> str:
    if get_origin(f.type) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(f.type))
    return cast("type[Any]", f.type).__name__


def _variable(section: str, key: str) -> str:
    return f"NEXUS_{section}_{key}".upper()


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _wrap(text: str, width: int = 98) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + len(word) >= width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line
