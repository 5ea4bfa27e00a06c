"""What a server offers, kept in the home.

With it the tools are the same from one run to the next, so the prefix of every prompt stays cached, and a
server is started only when one of its tools is called. It is renewed whenever the server is started.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nexus import ids
from nexus.config import McpConfig
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

# What providers accept as the name of a tool.
_NAME_CHARACTERS = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARACTERS = 8


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One tool of a server."""

    name: str
    description: str
    parameters: dict[str, Any]
    repeatable: bool
    is_read_only: bool = False
    is_destructive: bool = False

    def name_in(self, server: str) -> str:
        """Its name among all tools: `SERVER__TOOL`, changed and marked where no provider would accept it."""
        name = f"{server}__{self.name}"
        accepted = _OTHER.sub("_", name)
        if accepted == name and len(name) <= _NAME_CHARACTERS:
            return name
        # Without a mark, two names that differ only in what was changed would be one, and one tool lost.
        return f"{accepted[: _NAME_CHARACTERS - _MARK_CHARACTERS - 1]}_{_hash(name)[:_MARK_CHARACTERS]}"


def source(config: McpConfig) -> str:
    """What tells one server from another that has its name in the settings."""
    return _hash(json.dumps([config.command, *config.args, config.url]))


def read(path: Path, wanted: str) -> list[Offer] | None:
    """What the server of a source offered last; None where that is not known. Blocking."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        return [Offer(**entry) for entry in kept["tools"]] if kept["source"] == wanted else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(path: Path, source: str, offers: Iterable[Offer]) -> None:
    """Keep what a source offers now, complete or not at all. Blocking."""
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    new = path.with_name(f".{path.name}.{ids.new('new')}")
    new.touch(mode=PRIVATE_FILE)
    kept = {"source": source, "tools": [asdict(offer) for offer in offers]}
    new.write_text(json.dumps(kept, indent=2), encoding="utf-8")
    new.replace(path)


def argument_names(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The arguments that a server's schema knows; None where it takes any."""
    names = set[str]()
    open_ = [schema]
    seen = list[Any]()
    while open_:
        part = open_.pop()
        if part in seen:
            continue
        seen.append(part)
        if part.get("additionalProperties") or part.get("patternProperties"):
            return None
        names |= part.get("properties", {}).keys()
        open_ += [each for key in ("allOf", "anyOf", "oneOf") for each in part.get(key, ()) if each]
        if str(part.get("$ref", "")).startswith("#/"):
            target: Any = schema
            for step in part["$ref"][2:].split("/"):
                target = target.get(step, {})
            open_.append(target)
    is_silent = not names and schema.get("additionalProperties") is not False and "properties" not in schema
    return None if is_silent else frozenset(names)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
