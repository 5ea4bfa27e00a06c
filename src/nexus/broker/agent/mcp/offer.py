"""What a server offers, kept in the home.

With it the tools are the same from one run to the next, so the prefix of every prompt stays cached, and a
server is started only when one of its tools is called. It is renewed whenever the server is started.
"""

import hashlib
import json
import re
from collections.abc import Iterable
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


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
