"""Skills that are one page of advice: how to search the memory, and how to reflect on it."""

from importlib import resources
from pathlib import Path
from typing import Final

from nexus.skills.folder import Seeded, seed

PAGES: Final = {"memory-search": "memory_search", "memory-reflect": "memory_reflect"}
"""The name of each skill, and the folder of its page."""


def lay(workspace: Path) -> list[Seeded]:
    """Lay the pages into a workspace, or bring them up to date."""
    return [seed(workspace, name, {"SKILL.md": page(name)}) for name in PAGES]


def page(name: str) -> str:
    """The text of a skill."""
    return resources.files("nexus.skills").joinpath(PAGES[name], "SKILL.md").read_text(encoding="utf-8")
