"""What a server offers, kept in the home.

With it the tools are the same from one run to the next, so the prefix of every prompt stays cached, and a
server is started only when one of its tools is called. It is renewed whenever the server is started.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nexus import ids
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

# What providers accept as the name of a tool.
_NAME_CHARACTERS = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One tool of a server."""

    name: str
    description: str
    parameters: dict[str, Any]
    repeatable: bool

    def name_in(self, server: str) -> str:
        """Its name among all tools: `SERVER__TOOL`."""
        return _OTHER.sub("_", f"{server}__{self.name}")[:_NAME_CHARACTERS]


def read(path: Path) -> list[Offer] | None:
    """What was offered last; None where that is not known. Blocking."""
    try:
        entries: Any = json.loads(path.read_text(encoding="utf-8"))
        return [Offer(**entry) for entry in entries]
    except (OSError, ValueError, TypeError):
        return None


def write(path: Path, offers: Iterable[Offer]) -> None:
    """Keep what is offered now, complete or not at all. Blocking."""
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    new = path.with_name(f".{path.name}.{ids.new('new')}")
    new.touch(mode=PRIVATE_FILE)
    new.write_text(json.dumps([asdict(offer) for offer in offers], indent=2), encoding="utf-8")
    new.replace(path)
