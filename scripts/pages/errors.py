"""The errors page, from nexus.errors."""

from nexus.errors import NexusError
from pages import markdown

_ABOUT = """\
Every expected error is a `NexusError` with a `message` (what failed) and an optional `hint` (what to do).
The `nexus` program prints both and exits with code 1."""

_OVER_HTTP = """\
## Over HTTP

Every answer that is no success is a problem of RFC 9457 (`application/problem+json`):

```json
{
  "type": "urn:nexus:error:missing",
  "title": "Nothing with that name or id",
  "status": 404,
  "detail": "Unknown request req_01",
  "hint": ""
}
```

`type` is stable: programs may rely on it, and `nexus.Client` raises the error above that has it. `detail` and
`hint` are for people. What is refused before it reaches the home has the type of its status, such as
`urn:nexus:error:unauthorized`, `urn:nexus:error:too-many-requests` or
`urn:nexus:error:unprocessable-content`. The engine adds `engine-busy`, `engine-full`, `engine-unreachable`,
`engine-state`, `unknown-execution`, `work-failed`, `work-timeout` and `work-cancelled`."""


def page() -> str:
    parts = markdown.front("Errors", "src/nexus/errors.py", _ABOUT)
    parts += [markdown.fence("\n".join(_tree(NexusError)), "text")]
    parts += [
        markdown.table(
            ["Error", "Raised when", "Type over HTTP"],
            [
                [f"`{kind.__name__}`", (kind.__doc__ or "").strip(), f"`{kind.type}`"]
                for kind in _all(NexusError)
            ],
        )
    ]
    parts += [_OVER_HTTP]
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
