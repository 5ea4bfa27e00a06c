"""The errors page, from nexus.errors."""

from nexus.errors import NexusError
from pages import markdown

_ABOUT = """\
Every expected error is a `NexusError` with a `message` (what failed) and an optional `hint` (what to do).
The `nexus` program prints both and exits with code 1."""


def page() -> str:
    parts = markdown.front("Errors", "src/nexus/errors.py", _ABOUT)
    parts += [markdown.fence("\n".join(_tree(NexusError)), "text")]
    parts += [
        markdown.table(
            ["Error", "Raised when"],
            [[f"`{kind.__name__}`", (kind.__doc__ or "").strip()] for kind in _all(NexusError)],
        )
    ]
    return markdown.join(parts)


def _tree(kind: type[NexusError], indent: str = "") -> list[str]:
    lines = [kind.__name__] if not indent else []
    below = _below(kind)
    for child in below:
        last = child is below[-1]
        lines.append(f"{indent}{'└── ' if last else '├── '}{child.__name__}")
        lines += _tree(child, indent + ("    " if last else "│   "))
    return lines


def _all(kind: type[NexusError]) -> list[type[NexusError]]:
    return [kind, *(found for child in _below(kind) for found in _all(child))]


def _below(kind: type[NexusError]) -> list[type[NexusError]]:
    # What tests and other programs derive is not part of the page.
    return [child for child in kind.__subclasses__() if child.__module__ == NexusError.__module__]
