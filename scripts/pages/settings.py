"""The settings page, from nexus.config."""

import inspect

from nexus import config
from nexus.settings import Setting, toml
from pages import markdown

_ABOUT = """\
Settings are read from `config.toml` in the home when a command starts; restart Nexus to apply changes.
Environment variables override the file. `nexus init` writes the file with every setting commented out at
its default. Unknown keys and invalid values are refused."""


def page() -> str:
    parts = markdown.front("Settings", "src/nexus/config.py", _ABOUT)
    for section, about, entries in config.settings():
        parts += [f"## `[{section}]` {{ #{section} }}", inspect.cleandoc(about)]
        parts += [part for entry in entries for part in _setting(entry)]
    return markdown.join(parts)


def _setting(entry: Setting) -> list[str]:
    kind = entry.kind if "`" in entry.kind else markdown.code(entry.kind)
    return [
        f"### `{entry.key}` {{ #{entry.section}-{entry.key} }}",
        entry.doc,
        f"{kind}, default {markdown.code(toml(entry.default))}, variable {markdown.code(entry.variable)}",
    ]
