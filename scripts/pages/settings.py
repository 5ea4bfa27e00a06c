"""The settings page, from nexus.config."""

from nexus import config
from nexus.settings import Setting
from pages import markdown

_ABOUT = """\
Settings are read once, when a command starts, from `config.toml` in the home. A variable of the
environment wins over the file. A key that is not known, a value of the wrong type and a negative number
are refused with a message that names the place; nothing is guessed."""


def page() -> str:
    parts = markdown.front("Settings", "src/nexus/config.py", _ABOUT)
    for section, about, entries in config.settings():
        parts += [f"## `[{section}]` {{ #{section} }}", about]
        parts += [part for entry in entries for part in _setting(entry)]
    parts += [
        "## The file of a new home",
        "`nexus init` writes this `config.toml`: every setting at its default, switched off by `#`.",
        markdown.fence(config.template(), "toml"),
    ]
    return markdown.join(parts)


def _setting(entry: Setting) -> list[str]:
    kind = entry.kind if "`" in entry.kind else markdown.code(entry.kind)
    return [
        f"### `{entry.key}` {{ #{entry.section}-{entry.key} }}",
        entry.doc,
        markdown.table(
            ["Type", "Default", "Variable"],
            [[kind, markdown.code(str(entry.default)), markdown.code(entry.variable)]],
        ),
    ]
