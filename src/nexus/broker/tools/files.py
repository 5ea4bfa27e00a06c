"""The `read`, `write` and `edit` tools: small scripts in the same sandbox that `bash` runs in.

Nothing in this process opens a path that an agent named: the mounts alone decide what it reaches.
"""

import asyncio
import difflib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NoReturn

from nexus.broker.tools import text_edit
from nexus.broker.tools.sandbox import Limits, Outcome
from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.errors import ToolError

_READ_BYTES: Final = 256 * 1024
_READ_LINES: Final = 2_000
_EDIT_BYTES: Final = 512 * 1024

_MISSING, _NOT_A_FILE, _UNREADABLE, _TOO_LARGE, _CHANGED, _NOT_KEPT = 40, 41, 42, 43, 44, 45

_CHECK = f"""
[ -e "$1" ] || exit {_MISSING}
[ -f "$1" ] || exit {_NOT_A_FILE}
[ -r "$1" ] || exit {_UNREADABLE}
"""
# $1 the path, $2 the first line, $3 how many lines, $4 how many bytes
_READ_SCRIPT = f"""{_CHECK}
tail -n "+$2" -- "$1" | head -n "$3" | head -c "$4"
"""
# $1 the path, $2 the most bytes
_WHOLE_SCRIPT = f"""{_CHECK}
[ "$(stat -Lc %s -- "$1")" -le "$2" ] || exit {_TOO_LARGE}
cat -- "$1"
"""
# $1 the path, $2 the SHA-256 that the present content must have, or nothing, $3 a name not yet used;
# the content comes in. A rename makes the change whole or not at all; a link is followed, and stays.
_WRITE_SCRIPT = f"""
set -eu
umask 077
file=$1
if [ -L "$file" ]; then file=$(realpath -m -- "$file"; printf x); file=${{file%??}}; fi
[ ! -e "$file" ] || [ -f "$file" ] || exit {_NOT_A_FILE}
folder=${{file%/*}}/
[ "$folder" != "$file/" ] || folder=./
[ -d "$folder" ] || mkdir -p -- "$folder"
devices=$(stat -c %d -- "$folder" /tmp /dev/shm)
set -- "$1" "$2" "$3" $devices
[ "$4" != "$5" ] && [ "$4" != "$6" ] || exit {_NOT_KEPT}
new=$folder$3
trap 'rm -f -- "$new"' EXIT
cat > "$new"
[ ! -e "$file" ] || chmod "$(printf %o $((0$(stat -c %a -- "$file") & 0777)))" -- "$new"
[ -z "$2" ] || [ "$(sha256sum < "$file")" = "$2  -" ] || exit {_CHANGED}
mv -fT -- "$new" "$file"
trap - EXIT
"""


async def _read(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    first, lines = arguments.get("first_line", 1), arguments.get("lines", _READ_LINES)
    most_bytes = min(_READ_BYTES, context.sandbox.limits.output_bytes)
    outcome = await _script(_READ_SCRIPT, [path, str(first), str(lines), str(most_bytes)], context)
    if outcome.exit_code:
        _refuse(path, outcome, context)
    return _numbered(
        outcome.stdout.decode(errors="replace"), first, lines, cut=len(outcome.stdout) >= most_bytes
    )


def _numbered(text: str, first: int, lines: int, *, cut: bool) -> str:
    if not text:
        return "[the file has no such line]" if first > 1 else "[the file is empty]"
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    shown = "\n".join(f"{number:>6}\t{row}" for number, row in enumerate(rows, first))
    if cut:
        return f"{shown}\n[cut in the midst of line {first + len(rows) - 1}: it is long, use `bash`]"
    if len(rows) >= lines:
        return f"{shown}\n[perhaps more: go on with first_line {first + len(rows)}]"
    return shown


async def _write(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    data = str(arguments["content"]).encode()
    await _replace(path, data, "", context)
    return f"Wrote {len(data)} bytes to {path}."


async def _preview_write(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    outcome = await _script(_WHOLE_SCRIPT, [path, str(_EDIT_BYTES)], context)
    if outcome.exit_code == _MISSING:
        return ""  # a new file: its content is all there is to see
    if outcome.exit_code:
        _refuse(path, outcome, context)
    return _diff(path, outcome.stdout.decode(errors="replace"), arguments["content"])


async def _edit(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    before, after, line = await _edited(arguments, context)
    await _replace(path, after.encode(), hashlib.sha256(before.encode()).hexdigest(), context)
    return f"Edited {path} at line {line}."


async def _preview_edit(arguments: Arguments, context: Context) -> str:
    before, after, _ = await _edited(arguments, context)
    return _diff(arguments["path"], before, after)


async def _edited(arguments: Arguments, context: Context) -> tuple[str, str, int]:
    """The text of a file before and after an edit, and the line where it differs."""
    path: str = arguments["path"]
    outcome = await _script(_WHOLE_SCRIPT, [path, str(_EDIT_BYTES)], context)
    if outcome.exit_code:
        _refuse(path, outcome, context)
    try:
        text = outcome.stdout.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text", hint="Change it with a program, by `bash`.") from None
    # In a thread: looking for the nearest passage in a large file takes a while.
    edited, line = await asyncio.to_thread(text_edit.replaced, text, arguments["old"], arguments["new"])
    return text, edited, line


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), path, path, lineterm="")
    return "\n".join(lines) or "(nothing changes)"


async def _replace(path: str, data: bytes, expected: str, context: Context) -> None:
    if len(data) > context.sandbox.limits.file_bytes:
        raise ToolError(f"{len(data)} bytes are more than the {context.sandbox.limits.file_bytes} allowed")
    outcome = await _script(
        _WRITE_SCRIPT, [path, expected, f".nexus.{secrets.token_hex(8)}"], context, stdin=data
    )
    if outcome.exit_code:
        _refuse(path, outcome, context)


async def contents(path: str, most_bytes: int, context: Context) -> bytes:
    """All of a file that an agent named."""
    # Room for what the shell may say besides.
    limits = replace(context.sandbox.limits, output_bytes=most_bytes + 65_536)
    outcome = await _script(_WHOLE_SCRIPT, [path, str(most_bytes)], context, limits=limits)
    if outcome.exit_code == _TOO_LARGE:
        raise ToolError(f"{path} is larger than {most_bytes:,} bytes")
    if outcome.exit_code:
        _refuse(path, outcome, context)
    return outcome.stdout


async def _script(
    script: str,
    arguments: Sequence[str],
    context: Context,
    stdin: bytes | None = None,
    limits: Limits | None = None,
) -> Outcome:
    path, *rest = arguments
    # Programs take `-` for their standard input even after `--`.
    argv = ["sh", "-c", script, "nexus", f"./{path}" if path.startswith("-") else path, *rest]
    outcome = await context.sandbox.run(argv, stdin=stdin, directory=context.directory, limits=limits)
    if outcome.killed_by:
        raise ToolError(f"The file tool was ended by its limit on {outcome.killed_by}")
    return outcome


def _refuse(path: str, outcome: Outcome, context: Context) -> NoReturn:
    granted = f"Granted: {context.granted}."
    told = outcome.stderr.decode(errors="replace").strip()[-500:] or f"exit code {outcome.exit_code}"
    known = {
        _MISSING: (f"{path} does not exist, or is outside what was granted", granted),
        _NOT_A_FILE: (f"{path} is not a regular file", "List a directory with `bash`: `ls`."),
        _UNREADABLE: (f"{path} may not be read", granted),
        _TOO_LARGE: (f"{path} is larger than {_EDIT_BYTES} bytes", "Change it with a program, by `bash`."),
        _NOT_KEPT: (f"{path} would not be kept: only granted directories are", granted),
        _CHANGED: (f"{path} was changed meanwhile", "Read it again, then edit."),
    }
    message, hint = known.get(outcome.exit_code or 0, (f"{path}: {told}", granted))
    raise ToolError(message, hint=hint)


_PATH = {"type": "string"}

READ = Tool(
    name="read",
    description="Read a text file. Each line is shown with its number and a tab.",
    parameters=parameters(
        "path",
        path=_PATH,
        first_line={"type": "integer", "minimum": 1},
        lines={"type": "integer", "minimum": 1},
    ),
    run=_read,
    repeatable=True,
)
WRITE = Tool(
    name="write",
    description="Write a whole file, creating it and its directory if needed.",
    parameters=parameters("path", "content", path=_PATH, content={"type": "string"}),
    run=_write,
    preview=_preview_write,
)
EDIT = Tool(
    name="edit",
    description="Replace a passage of a text file that occurs in it exactly once.",
    parameters=parameters(
        "path",
        "old",
        "new",
        path=_PATH,
        old={"type": "string"},
        new={"type": "string"},
    ),
    run=_edit,
    preview=_preview_edit,
)
