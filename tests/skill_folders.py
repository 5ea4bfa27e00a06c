"""Agent Skills for tests, in the open format."""

from pathlib import Path

from nexus.home import Home
from nexus.skills.catalog import Catalog, Entry, Reference
from nexus.skills.skill import read_skill, read_tree

COUNT = """\
---
name: word-count
description: Count the words of a text file.
license: MIT
compatibility: Needs a POSIX shell
metadata:
  author: ada
allowed-tools: Bash(wc:*)
---

# Word count

Run `scripts/count.sh FILE`. See references/LIMITS.md.
"""


def write_skill(place: Path, manifest: str = COUNT, **files: str) -> Path:
    """A skill in a folder of its own, with further files by their paths."""
    for path, text in {"SKILL.md": manifest, **files}.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
    return place


def manifest(name: str, description: str = "Does something.", body: str = "Do it.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"


def add_skill(home: Home, place: Path, *, enabled: bool = True) -> Entry:
    """Put a folder into a home as a skill."""
    catalog, tree = Catalog(home), read_tree(place)
    entry = catalog.install(read_skill(tree), tree, str(place))
    if enabled:
        enable(home, str(entry.reference))
    return catalog.get(entry.reference)


def enable(home: Home, name: str) -> None:
    """Enable a skill as it is now."""
    catalog, reference = Catalog(home), Reference.parse(name)
    catalog.enable(reference, catalog.read(reference)[0].sha256)
